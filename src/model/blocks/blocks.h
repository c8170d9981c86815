// Pieces that transformer papers share, as free functions over a stream: pre-norm attention and
// MLP blocks of text decoders and of vision towers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/checkpoint/weight_table.h"
#include "ops/device.h"

namespace saccade {

// LayerNorm with a bias, RMSNorm without.
struct Norm {
  VectorWeight weight;
  VectorWeight bias;
};

struct NormStyle {
  float epsilon = 1e-6f;
  float weight_offset = 0;     // 1 for Gemma's (1 + w)
  bool subtract_mean = false;  // LayerNorm
};

// NAME.weight, and NAME.bias for LayerNorm.
void add_norm(WeightTable& table, Norm& into, const std::string& name, std::int64_t n,
              const NormStyle& style);

void apply_norm(Stream& stream, const Norm& norm, const NormStyle& style, View x, View out);
// x += add, then out = norm(x)
void apply_norm(Stream& stream, const Norm& norm, const NormStyle& style, View x, View add,
                View out);

// y = act(x W^T + b) [+ residual]
void apply_linear(Stream& stream, const Linear& linear, View x, View y, View residual = {},
                  Activation activation = Activation::kNone);

struct MlpRows {
  View x;
  View inner;  // room for [rows, in's outputs]
  View y;
  View residual = {};
};
// y = out(act(in x)) [+ residual], gated where `in` has twice the outputs that `out` has inputs.
void apply_mlp(Stream& stream, const Linear& in, const Linear& out, Activation activation,
               const MlpRows& rows);

// inv_freq[i] = theta^(-2i / dim) for i < dim / 2, computed as the reference does: in float32.
std::vector<float> rope_frequencies(double theta, std::int64_t dim);

// A layer of a vision transformer.
struct VisionBlock {
  Norm attention_norm;
  Linear qkv;
  Norm q_norm;  // [heads * head_dim], or empty
  Norm k_norm;
  Linear attention_out;
  Norm mlp_norm;
  Linear mlp_in;  // gate and up stacked in a gated MLP
  Linear mlp_out;
};

// An MLP runs over this many rows at a time, so that an image of 65,536 patches does not need four
// times its width in memory.
constexpr std::int64_t kMlpRows = 2048;

}  // namespace saccade
