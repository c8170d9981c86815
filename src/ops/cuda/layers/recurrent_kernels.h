// Kernels of layers that keep a state, beside those of kernels.h: the short convolution and the
// gated delta rule, over spans of rows whose states lie in pages. Prefill chunks and single rows of
// many sequences go in one launch.
//
// Every sum of a token is fixed by the widths alone, and tokens come one after the other: a row's
// bits, and the state behind it, do not depend on how its sequence is cut, nor on who is beside it.
//
// Roofs of decode: a step reads and writes each sequence's state once. Of one layer of Qwen3.5 0.8B
// that is 1 MiB (16 heads of 128 x 128 f32) and 72 KiB of the convolution, both ways; of its 18
// layers 40.4 MB a sequence, 9.4 us at 4.3 TB/s. A chunk of prefill moves the same bytes once, and
// then waits for one token after another.
#pragma once

#include "ops/cuda/kernels.h"

namespace saccade::cuda {

// As StateSpan of ops/device.h. Ascending and apart; a page is in one of them, but for pages that
// nobody reads.
struct StateSpanEntry {
  std::int32_t row_begin;
  std::int32_t row_count;
  std::int32_t page;
  std::int32_t fresh;
};

// out row t = activation(sum over j < taps of weight row j * x row t - taps + 1 + j), every column
// by itself.
struct CausalConvKernelArgs {
  Rows x;
  Rows weight;                            // [taps, cols] f32, 2 to 8 taps
  const StateSpanEntry* spans = nullptr;  // [span_count]
  std::int64_t span_count = 0;
  Rows states;  // [pages, (taps - 1) * cols] f32
  Activation activation = Activation::kSilu;
  Rows out;  // of x's type; may be x
};
void launch_causal_conv(const CausalConvKernelArgs& args, cudaStream_t stream);

// As DeltaRuleArgs of ops/device.h. q and k are left as they are.
struct DeltaRuleKernelArgs {
  Rows q;  // [rows, key_heads * key_dim]
  Rows k;
  Rows v;                                 // [rows, heads * value_dim]
  Rows a;                                 // [rows, heads]
  Rows b;                                 // the same
  const float* a_log = nullptr;           // [heads]
  const float* dt_bias = nullptr;         // [heads]
  const StateSpanEntry* spans = nullptr;  // [span_count]
  std::int64_t span_count = 0;
  Rows states;  // [pages, heads * key_dim * value_dim] f32
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t key_dim = 0;  // at most kMaxKeyDim
  std::int64_t value_dim = 0;
  float scale = 1;
  float epsilon = 1e-6f;
  Rows out;  // [rows, heads * value_dim], of v's type, as q, k, a and b; may be v
};
constexpr std::int64_t kMaxKeyDim = 1024;
void launch_delta_rule(const DeltaRuleKernelArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
