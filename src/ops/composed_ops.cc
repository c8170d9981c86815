// Ops that every device has, of others.
#include "ops/device.h"
#include "ops/shapes.h"

namespace saccade {

void Stream::qkv(const QkvArgs& args) {
  check_shapes(args);
  const std::int64_t keys = args.queries();
  const std::int64_t values = keys + args.keys();
  const View turned = args.qkv.col_range(0, values);
  if (!args.norm.empty())
    norm({.x = turned,
          .add = {},
          .weight = args.norm,
          .bias = {},
          .group = args.layer.head_dim,
          .epsilon = args.epsilon,
          .weight_offset = args.weight_offset,
          .subtract_mean = args.subtract_mean,
          .out = turned});
  rope({.x = turned, .head_dim = args.layer.head_dim, .cos = args.cos, .sin = args.sin});
  kv_write({.plan = args.plan,
            .k = args.qkv.col_range(keys, values),
            .v = args.qkv.col_range(values, args.qkv.cols()),
            .layer = args.layer});
}

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

void Stream::normed_gemm(const NormedGemmArgs& args) {
  check_shapes(args);
  norm(args.norm);
  gemm(args.gemm);
}

void Stream::normed_mlp(const NormedMlpArgs& args) {
  check_shapes(args);
  norm(args.norm);
  mlp(args.mlp);
}

}  // namespace saccade
