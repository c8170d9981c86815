#include "model/blocks/blocks.h"

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

void apply_mlp(Stream& stream, const Linear& in, const Linear& out, Activation activation,
               const MlpRows& rows) {
  stream.mlp({.x = rows.x,
              .in = in.weight.get(),
              .in_bias = in.bias.view,
              .activation = activation,
              .out = out.weight.get(),
              .out_bias = out.bias.view,
              .residual = rows.residual,
              .inner = rows.inner,
              .y = rows.y});
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

}  // namespace saccade
