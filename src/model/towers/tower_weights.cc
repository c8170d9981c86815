#include "model/towers/tower_weights.h"

#include <functional>
#include <numeric>
#include <utility>

#include "ops/formats/stored_matrix.h"

namespace saccade {
namespace {

// Rows of the parts, which share `out` among them.
std::vector<WeightTable::Part> vision_parts(const std::string& at,
                                            const std::vector<std::string>& names,
                                            std::int64_t out) {
  std::vector<WeightTable::Part> parts;
  for (const std::string& name : names)
    parts.push_back({at + name, out / static_cast<std::int64_t>(names.size())});
  return parts;
}

}  // namespace

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

const VisionBlockNames kSiglipBlockNames = {
    "layer_norm1",        {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
    "self_attn.out_proj", "layer_norm2",
    {"mlp.fc1"},          "mlp.fc2"};

void add_vision_attention(WeightTable& table, VisionBlock& block, const std::string& at,
                          const VisionBlockNames& names, const VisionBlockShape& shape) {
  add_norm(table, block.attention_norm, at + names.attention_norm, shape.embed, shape.norm);
  table.stacked(block.qkv, vision_parts(at, names.qkv, 3 * shape.embed), shape.embed,
                shape.qkv_bias, MatrixRole::kTowerLayer);
  table.linear(block.attention_out, at + names.attention_out, shape.embed, shape.embed,
               shape.out_bias, MatrixRole::kTowerLayer);
}

void add_vision_block(WeightTable& table, VisionBlock& block, const std::string& at,
                      const VisionBlockNames& names, const VisionBlockShape& shape) {
  add_vision_attention(table, block, at, names, shape);
  add_norm(table, block.mlp_norm, at + names.mlp_norm, shape.embed, shape.norm);
  const auto matrices = static_cast<std::int64_t>(names.mlp_in.size());
  table.stacked(block.mlp_in, vision_parts(at, names.mlp_in, matrices * shape.inner), shape.embed,
                shape.mlp_bias, MatrixRole::kTowerLayer);
  table.linear(block.mlp_out, at + names.mlp_out, shape.embed, shape.inner, shape.mlp_bias,
               MatrixRole::kTowerLayer);
}

void add_vision_blocks(WeightTable& table, std::vector<VisionBlock>& blocks, std::int64_t count,
                       const std::string& at, const VisionBlockNames& names,
                       const VisionBlockShape& shape) {
  blocks.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < blocks.size(); ++i)
    add_vision_block(table, blocks[i], fmt::format("{}{}.", at, i), names, shape);
}

}  // namespace saccade
