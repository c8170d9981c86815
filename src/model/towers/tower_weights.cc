#include "model/towers/tower_weights.h"

#include <functional>
#include <numeric>
#include <utility>

#include "ops/stored_matrix.h"

namespace saccade {

void add_position_rows(WeightTable& table, PositionRows& into, const std::string& name,
                       std::int64_t n, std::int64_t width) {
  table.row(
      {{name, {n, width}, TensorKind::kEmbedding}},
      [&into](const WeightTable::Tensors& tensors, Device& device, DType) -> Result<std::size_t> {
        const View from = tensors.others.front();
        const auto bytes = static_cast<std::size_t>(from.rows() * from.cols()) * sizeof(float);
        TRY(into.storage, device.allocate(bytes));
        into.view = into.storage.view(DType::kF32, from.rows(), from.cols());
        device.lane(Lane::kCopy).upload(from, into.view);
        return bytes;
      });
}

void add_joining(WeightTable& table, Linear& into, const std::string& name,
                 std::vector<std::int64_t> shape, std::int64_t count) {
  const std::int64_t out = shape.front();
  const std::int64_t width =
      std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  table.row({{name + ".weight", std::move(shape), TensorKind::kMatrix}},
            [&into, out, width, count](const WeightTable::Tensors& tensors, Device& device,
                                       DType compute) -> Result<std::size_t> {
              std::vector<float> stored(static_cast<std::size_t>(width));
              std::vector<float> turned(static_cast<std::size_t>(out * width));
              const StoredMatrixReader reader(tensors.matrices.front());
              for (std::int64_t row = 0; row < out; ++row) {
                reader.read(row, row + 1, 0, width, stored.data(), width);
                float* to = turned.data() + row * width;
                for (std::int64_t patch = 0; patch < count; ++patch) {
                  for (std::int64_t input = patch; input < width; input += count)
                    *to++ = stored[static_cast<std::size_t>(input)];
                }
              }
              const StoredMatrix whole = View(turned.data(), DType::kF32, out, width);
              into.weight = device.pack({&whole, 1}, compute);
              return into.weight->bytes();
            });
}

}  // namespace saccade
