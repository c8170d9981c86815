// Rotary position embedding: angles once a forward, rotation in place.
#include <cmath>

#include "ops/cpu/cpu_backend.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuBackend::rope_table(const RopeTableArgs& args) {
  check_shapes(args);
  const auto pairs = static_cast<std::int64_t>(args.inv_freq.size());
  // An angle costs some forty times what a plain element does.
  each_row(args.cos.rows(), pairs * 40, [&](std::int64_t row) {
    float* cos = args.cos.row<float>(row);
    float* sin = args.sin.row<float>(row);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const auto p = static_cast<std::size_t>(pair);
      const std::size_t axis = args.axis.empty() ? 0 : args.axis[p];
      // In f32, as published models do: at large positions this rounding is the angle's largest
      // error, and must be the same as theirs.
      const float angle = static_cast<float>(args.positions[axis][static_cast<std::size_t>(row)]) *
                          args.inv_freq[p];
      cos[pair] = std::cos(angle) * args.scale;
      sin[pair] = std::sin(angle) * args.scale;
    }
  });
}

void CpuBackend::rope(const RopeArgs& args) {
  check_shapes(args);
  each_row(args.x.rows(), args.x.cols(), [&](std::int64_t row) {
    for (std::int64_t col = 0; col < args.x.cols(); col += args.head_dim)
      kernels_.rope_head(args.x.row<float>(row) + col, args.cos.row<float>(row),
                         args.sin.row<float>(row), args.cos.cols());
  });
}

}  // namespace saccade::cpu
