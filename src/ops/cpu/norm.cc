// RMSNorm and LayerNorm, with the residual addition that comes before them.
#include "ops/cpu/cpu_backend.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuBackend::norm(const NormArgs& args) {
  check_shapes(args);
  each_row(args.x.rows(), args.x.cols(), [&](std::int64_t row) {
    NormRowArgs norm;
    norm.x = args.x.row<float>(row);
    norm.add = args.add.empty() ? nullptr : args.add.row<float>(row);
    norm.weight = args.weight.row<float>(0);
    norm.bias = args.bias.empty() ? nullptr : args.bias.row<float>(0);
    norm.epsilon = args.epsilon;
    norm.weight_offset = args.weight_offset;
    norm.subtract_mean = args.subtract_mean;
    norm.cols = args.x.cols();
    norm.out = args.out.row<float>(row);
    kernels_.norm_row(norm);
  });
}

}  // namespace saccade::cpu
