// mlp() of the ops that every device has.
#include "ops/device.h"
#include "ops/shapes.h"

namespace saccade {

void Stream::mlp(const MlpArgs& args) {
  check_shapes(args);
  const std::int64_t width = args.out->in();
  const View gate = args.inner.col_range(0, width);
  gemm({.x = args.x,
        .weight = args.in,
        .bias = args.in_bias,
        .activation = args.gated() ? Activation::kNone : args.activation,
        .residual = {},
        .y = args.inner});
  if (args.gated())
    gated({.gate = gate,
           .up = args.inner.col_range(width, 2 * width),
           .activation = args.activation,
           .out = gate});
  gemm({.x = gate,
        .weight = args.out,
        .bias = args.out_bias,
        .residual = args.residual,
        .y = args.y});
}

}  // namespace saccade
