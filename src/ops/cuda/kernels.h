// One launch function an op: own kernels, over plain pointers, so that the same header serves the
// device's compiler, the host's and the emulator. Pointers are the device's unless said otherwise;
// nothing here waits or allocates. What an op means is in ops/reference/reference.cc.
//
// Activations are f32 or bf16, sums f32. A row's result depends on that row alone, bit for bit,
// whatever the number of rows: the order of every sum is fixed by the number of columns (of a
// product, by the weight's shape; in attention, by the tokens seen).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "ops/activation.h"
#include "ops/cuda/attention/attention_parts.h"
#include "tensor/dtype.h"

struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace saccade::cuda {

// A matrix: `cols` neighbours a row, `stride` elements from row to row. Without data: absent.
struct Rows {
  void* data = nullptr;
  DType type = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

// out = normalise(x [+ add]) * (offset + weight) [+ bias]; with `add`, x := x + add first. Each row
// is `groups` pieces of `cols` columns, normalised apart (head norms).
struct NormKernelArgs {
  Rows x;  // cols: of one piece
  Rows add;
  Rows out;
  std::int64_t groups = 1;
  const float* weight = nullptr;
  const float* bias = nullptr;
  std::int64_t weight_step = 0;  // from a piece's weight and bias to the next piece's; 0: the same
  float epsilon = 1e-6f;
  float offset = 0;
  bool subtract_mean = false;
};
void launch_norm(const NormKernelArgs& args, cudaStream_t stream);

// cos and sin [rows, pairs] of positions[axis[pair]][row] * inv_freq[tables[row]][pair], times
// `scale`.
struct RopeTableKernelArgs {
  const std::int32_t* positions = nullptr;  // [axes][rows]
  Rows inv_freq;                            // [tables, pairs] f32
  const std::int32_t* tables = nullptr;     // [rows], or null: all 0
  const std::uint8_t* axis = nullptr;       // [pairs], or null: all 0
  float scale = 1;
  Rows cos;  // f32, as is sin
  Rows sin;
};
void launch_rope_table(const RopeTableKernelArgs& args, cudaStream_t stream);

// Where one layer keeps keys and values: block b begins at base + b * block_stride bytes with K
// [kv_heads, block_size, head_dim], then V; of bytes then the scales of K's rows, and of V's
// (ops/formats/kv_rows.h).
struct KvPages {
  std::byte* base = nullptr;
  std::int64_t block_stride = 0;
  std::int64_t block_size = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  DType type = DType::kBf16;

  constexpr bool coded() const { return type == DType::kI8 || type == DType::kE4m3; }
};

// RMS norm over each head, to NormKernelArgs' bits; no weight: none.
struct HeadNorm {
  const float* weight = nullptr;
  float epsilon = 1e-6f;
  float offset = 0;
  std::int64_t step = 0;  // from a head's weight to the next one's; 0: the same
};

// What lies between the product of q, k and v and attention, in one pass: head norms, rotation
// (half-split: element p pairs with p + pairs), q to q_out, k and v to their pages. To the bits of
// a launch for each: every step's result is rounded to the rows' type.
struct QkvKernelArgs {
  Rows q;  // [rows, heads * head_dim]; absent: none
  Rows k;  // [rows, kv_heads * head_dim]; absent: none
  Rows v;
  std::int64_t head_dim = 0;
  HeadNorm q_norm;
  HeadNorm k_norm;
  Rows cos;  // [rows, pairs] f32; absent: no rotation
  Rows sin;
  Rows q_out;                           // may be q; heads of q_head_dim columns, those beyond
                                        // head_dim zero
  std::int64_t q_head_dim = 0;          // 0: head_dim
  Rows k_out;                           // where there are no pages; may be k
  KvPages pages;                        // base null: none
  const std::int32_t* slots = nullptr;  // [rows]: block * block_size + place in it
};
void launch_qkv(const QkvKernelArgs& args, cudaStream_t stream);

// out = activation(gate) * up; without `up`, activation(gate). `bias` (f32, [cols]) is added to
// gate first, `residual` to the result.
struct GatedKernelArgs {
  Rows gate;
  Rows up;
  const float* bias = nullptr;
  Rows residual;
  Activation activation = Activation::kSilu;
  Rows out;
};
void launch_gated(const GatedKernelArgs& args, cudaStream_t stream);

// out row i = table row ids[i] * scale. An id of -1 - s is what last_token[s] holds: the token that
// the sampler put there a moment ago. Where image_rows[i] >= 0, that row of `images` is taken
// instead, as it is.
struct EmbedKernelArgs {
  Rows table;
  const std::int32_t* ids = nullptr;         // [out.rows]
  const std::int32_t* last_token = nullptr;  // or null
  const std::int32_t* image_rows = nullptr;  // [out.rows], or null
  Rows images;
  float scale = 1;
  Rows out;
};
void launch_embed(const EmbedKernelArgs& args, cudaStream_t stream);

// out row i = sum over j < taps of weights[i taps + j] * x row rows[i taps + j].
struct MixRowsKernelArgs {
  Rows x;
  const std::int32_t* rows = nullptr;  // [out.rows * taps]
  const float* weights = nullptr;      // or null: all 1
  std::int64_t taps = 1;
  Rows out;
};
void launch_mix_rows(const MixRowsKernelArgs& args, cudaStream_t stream);

// Row to_rows[i] of `to` becomes, or with `add` gains, row from_rows[i] of `from`, converted. A
// null list counts 0, 1, 2, ...; -1 goes nowhere.
struct CopyRowsKernelArgs {
  Rows from;
  const std::int32_t* from_rows = nullptr;
  Rows to;
  const std::int32_t* to_rows = nullptr;
  std::int64_t count = 0;
  bool add = false;
};
void launch_copy_rows(const CopyRowsKernelArgs& args, cudaStream_t stream);

// y += scale * x; x of one row goes to every row.
struct AddKernelArgs {
  Rows x;
  Rows y;
  float scale = 1;
};
void launch_add(const AddKernelArgs& args, cudaStream_t stream);

// x = cap * tanh(x / cap)
struct SoftcapKernelArgs {
  Rows x;
  float cap = 1;
};
void launch_softcap(const SoftcapKernelArgs& args, cudaStream_t stream);

// Largest logit (lowest index among equals; NaN never) and log(sum(exp)) of each row.
struct RowStatsEntry {
  std::int32_t argmax;
  float max;
  float log_sum_exp;
};
struct RowStatsKernelArgs {
  Rows logits;
  RowStatsEntry* out = nullptr;                     // [rows]
  std::int64_t out_stride = sizeof(RowStatsEntry);  // bytes
};
void launch_row_stats(const RowStatsKernelArgs& args, cudaStream_t stream);

// One sequence's tokens: how often each was generated, and whether its prompt has it.
constexpr std::int32_t kInPrompt = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kTimesGenerated = std::numeric_limits<std::int32_t>::max();
struct CountPromptKernelArgs {
  const std::int32_t* prompt = nullptr;  // [tokens]
  std::int64_t tokens = 0;
  std::int32_t* counts = nullptr;  // [vocab], zero so far
  std::int64_t vocab = 0;
};
void launch_count_prompt(const CountPromptKernelArgs& args, cudaStream_t stream);

struct TokenBias {
  std::int32_t token;
  float bias;
};
struct SampledEntry {
  std::int32_t token;
  float logprob;
  std::int32_t alternatives;
  std::int32_t failed;
  std::int32_t rank;
};
struct AlternativeEntry {
  std::int32_t token;
  float logprob;
};

// A SamplingRow as the kernel takes it: what the host can work out is worked out.
struct SampleKernelRow {
  std::int64_t row = 0;  // of the logits and their statistics
  const std::uint32_t* allowed = nullptr;
  std::int32_t allowed_words = 0;
  std::int32_t masked_count[2] = {0, 0};
  std::int32_t bias_count = 0;
  const std::int32_t* masked[2] = {nullptr, nullptr};
  const TokenBias* bias = nullptr;
  std::int32_t* counts = nullptr;  // [vocab], or null: no penalties
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  bool adjusts = false;    // any of the above: otherwise the largest is that of the statistics
  bool greedy = false;     // the largest of the adjusted
  float scale = 1;         // 1 / temperature
  float floor = 0;         // of a logit below the largest, scaled: log(min_p)
  std::int64_t top_k = 0;  // 0 and below: off
  double top_p = 1;
  double uniform = 0;  // the draw, in [0, 1)
  std::int32_t alternatives = -1;
  std::int32_t given = -1;
  SampledEntry* sampled = nullptr;
  AlternativeEntry* list = nullptr;    // [alternatives]
  std::int32_t* last_token = nullptr;  // or null
};

struct SampleKernelArgs {
  Rows logits;  // f32; cols: the vocabulary, below 2^24
  const RowStatsEntry* stats = nullptr;
  std::int64_t stats_stride = sizeof(RowStatsEntry);  // bytes
  const SampleKernelRow* rows = nullptr;              // [count]
  std::int64_t count = 0;
  float* scratch = nullptr;  // [count, cols], where any row adjusts
};
void launch_sample(const SampleKernelArgs& args, cudaStream_t stream);

// y = activation(x w^T + bias) + residual. x and weight both bf16 (tensor cores, sums f32), or one
// of them f32 (exact operands; y is of x's type, or f32). The weight's rows begin 16 bytes aligned
// and are zero up to their stride.
struct GemmKernelArgs {
  Rows x;       // [rows, in]
  Rows weight;  // [out, in]
  const float* bias = nullptr;
  Activation activation = Activation::kNone;
  Rows residual;  // may be y
  Rows y;         // [rows, out], f32 or bf16
};
void launch_gemm(const GemmKernelArgs& args, cudaStream_t stream);
void launch_gemm_f32(const GemmKernelArgs& args, cudaStream_t stream);  // its latter part

// One sequence's rows of a call.
struct AttentionSequence {
  std::int32_t row_begin;
  std::int32_t row_count;
  std::int32_t first_block;  // where its blocks begin in `blocks` (paged), or its first key row
};
// A tile of query rows: those of `sequence` from `first` on, counted in (row, head of the group).
struct AttentionTile {
  std::int32_t sequence;
  std::int32_t first;
};
constexpr int kAttentionTileRows = 64;
// A sequence that has no more is a tile of few rows, whose block shares the keys between its warps.
constexpr int kFewAttentionRows = 16;

// out = softmax(q k^T scale) v. Row r sees the tokens [seen[2 r], seen[2 r + 1]) of its sequence:
// causal, window, prefix and both-ways masks are all of that shape. Keys and values come from
// pages, or from the rows k and v. bf16 throughout, or over pages of bytes (tensor cores), or
// anything else in f32 arithmetic.
struct AttentionKernelArgs {
  Rows q;  // [rows, heads * q_head_dim]
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  KvPages pages;                         // base null: k and v
  const std::int32_t* blocks = nullptr;  // -1 where nobody looks any more
  Rows k;                                // [tokens, kv_heads * head_dim]
  Rows v;
  const AttentionSequence* sequences = nullptr;
  const AttentionTile* tiles = nullptr;
  std::int64_t tile_count = 0;
  std::int64_t few_tiles = 0;          // the first ones: of no more than kFewAttentionRows
  const std::int32_t* seen = nullptr;  // [rows][2]
  AttentionSplits splits = {};
  float scale = 1;
  float softcap = 0;
  Rows out;  // [rows, heads * head_dim]
};
void launch_attention(const AttentionKernelArgs& args, cudaStream_t stream);
void launch_attention_f32(const AttentionKernelArgs& args, cudaStream_t stream);  // its latter part
void launch_attention_codes(const AttentionKernelArgs& args, cudaStream_t stream);  // its middle
void launch_attention_merge(const AttentionKernelArgs& args, cudaStream_t stream);  // of parts

}  // namespace saccade::cuda
