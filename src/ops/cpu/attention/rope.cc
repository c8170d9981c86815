// Rotary position embedding: angles once a forward, rotation in place.
#include <cmath>

#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuStream::rope_table(const RopeTableArgs& args) {
  check_shapes(args);
  const std::int64_t pairs = args.inv_freq.cols();
  const std::int64_t rows = args.cos.rows();
  const std::uint8_t* axis = args.axis.empty() ? nullptr : args.axis.row<std::uint8_t>(0);
  // An angle costs some forty times what a plain element does.
  each_row(rows, pairs * 40, [&](std::int64_t row) {
    float* cos = args.cos.row<float>(row);
    float* sin = args.sin.row<float>(row);
    const std::int64_t table = args.tables.empty() ? 0 : args.tables.data()[row];
    const float* inv_freq = args.inv_freq.row<float>(table);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int64_t along = axis == nullptr ? 0 : axis[pair];
      // In f32, as published models do: at large positions this rounding is the angle's largest
      // error, and must be the same as theirs.
      const float angle =
          static_cast<float>(args.positions.data()[along * rows + row]) * inv_freq[pair];
      cos[pair] = std::cos(angle) * args.scale;
      sin[pair] = std::sin(angle) * args.scale;
    }
  });
}

void CpuStream::rope(const RopeArgs& args) {
  check_shapes(args);
  each_row(args.x.rows(), args.x.cols(), [&](std::int64_t row) {
    for (std::int64_t col = 0; col < args.x.cols(); col += args.head_dim)
      kernels_.rope_head(args.x.row<float>(row) + col, args.cos.row<float>(row),
                         args.sin.row<float>(row), args.cos.cols());
  });
}

}  // namespace saccade::cpu
