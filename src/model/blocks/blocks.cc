#include "model/blocks/blocks.h"

#include <algorithm>
#include <cmath>

namespace saccade {

void add_norm(WeightTable& table, Norm& into, const std::string& name, std::int64_t n,
              const NormStyle& style) {
  table.norm(into.weight, name + ".weight", n);
  if (style.subtract_mean) table.bias(into.bias, name + ".bias", n);
}

void apply_norm(Stream& stream, const Norm& norm, const NormStyle& style, View x, View out) {
  apply_norm(stream, norm, style, x, {}, out);
}

void apply_norm(Stream& stream, const Norm& norm, const NormStyle& style, View x, View add,
                View out) {
  stream.norm({.x = x,
               .add = add,
               .weight = norm.weight.view,
               .bias = norm.bias.view,
               .epsilon = style.epsilon,
               .weight_offset = style.weight_offset,
               .subtract_mean = style.subtract_mean,
               .out = out});
}

void apply_linear(Stream& stream, const Linear& linear, View x, View y, View residual,
                  Activation activation) {
  stream.gemm({.x = x,
               .weight = linear.weight.get(),
               .bias = linear.bias.view,
               .activation = activation,
               .residual = residual,
               .y = y});
}

void apply_mlp(Stream& stream, const Linear& in, const Linear& out, Activation activation, View x,
               View inner, View y, View residual) {
  stream.mlp({.x = x,
              .in = in.weight.get(),
              .in_bias = in.bias.view,
              .activation = activation,
              .out = out.weight.get(),
              .out_bias = out.bias.view,
              .residual = residual,
              .inner = inner,
              .y = y});
}

std::vector<float> rope_frequencies(double theta, std::int64_t dim) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dim);
    frequencies.push_back(1.0f /
                          static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  return frequencies;
}

void vision_attention(Stream& stream, const VisionBlock& block, const NormStyle& norm,
                      const VisionAttention& shape, const SegmentPlan& plan, View cos, View sin,
                      const VisionScratch& scratch, View x) {
  const std::int64_t rows = x.rows();
  const std::int64_t width = shape.heads * shape.head_dim;
  const View normed = scratch.normed.row_range(0, rows);
  const View qkv = scratch.qkv.row_range(0, rows);
  const View attention = scratch.attention.row_range(0, rows);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));

  apply_norm(stream, block.attention_norm, norm, x, normed);
  apply_linear(stream, block.qkv, normed, qkv);
  if (!block.q_norm.weight.view.empty()) {
    const View q = qkv.col_range(0, width);
    const View k = qkv.col_range(width, 2 * width);
    apply_norm(stream, block.q_norm, shape.qk_norm, q, q);
    apply_norm(stream, block.k_norm, shape.qk_norm, k, k);
  }
  if (!cos.empty())
    stream.rope(
        {.x = qkv.col_range(0, 2 * width), .head_dim = shape.head_dim, .cos = cos, .sin = sin});
  stream.segment_attention({.plan = &plan,
                            .q = qkv.col_range(0, width),
                            .k = qkv.col_range(width, 2 * width),
                            .v = qkv.col_range(2 * width, 3 * width),
                            .scale = scale,
                            .compute = shape.compute,
                            .out = attention});
  apply_linear(stream, block.attention_out, attention, x, x);
}

void vision_mlp(Stream& stream, const VisionBlock& block, const NormStyle& norm,
                Activation activation, const VisionScratch& scratch, View x) {
  for (std::int64_t begin = 0; begin < x.rows(); begin += kMlpRows) {
    const View part = x.row_range(begin, std::min(begin + kMlpRows, x.rows()));
    const View normed = scratch.normed.row_range(0, part.rows());
    const View inner = scratch.mlp.row_range(0, part.rows());
    apply_norm(stream, block.mlp_norm, norm, part, normed);
    apply_mlp(stream, block.mlp_in, block.mlp_out, activation, normed, inner, part, part);
  }
}

}  // namespace saccade
