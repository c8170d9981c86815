// RMSNorm and LayerNorm, with the residual addition that comes before them.
#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuStream::norm(const NormArgs& args) {
  check_shapes(args);
  const std::int64_t cols = args.group > 0 ? args.group : args.x.cols();
  each_row(args.x.rows(), args.x.cols(), [&](std::int64_t row) {
    for (std::int64_t col = 0; col < args.x.cols(); col += cols) {
      NormRowArgs norm;
      norm.x = args.x.row<float>(row) + col;
      norm.add = args.add.empty() ? nullptr : args.add.row<float>(row) + col;
      norm.weight = args.weight.row<float>(0) + col;
      norm.bias = args.bias.empty() ? nullptr : args.bias.row<float>(0) + col;
      norm.epsilon = args.epsilon;
      norm.weight_offset = args.weight_offset;
      norm.subtract_mean = args.subtract_mean;
      norm.cols = cols;
      norm.out = args.out.row<float>(row) + col;
      kernels_.norm_row(norm);
    }
  });
}

}  // namespace saccade::cpu
