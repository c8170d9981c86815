// The one kernel interface: about fourteen coarse operations over row matrices. Families compose
// them; a device implements them. One translation of each, in double precision and obviously right,
// is ops/reference.cc; ops/shapes.h checks the shapes.
//
// Contract of every op:
//  - Activations are of activation_dtype() (f32 on the CPU) unless the argument says otherwise.
//  - Row r of a result depends on row r of the operands (and, for attention, on its own sequence)
//  alone, bit for bit:
//    not on how many rows share the call, nor on which other sequences do. Batches, chunks and
//    thread counts therefore never change a token.
//  - Zero rows are legal and do nothing. Shapes are CHECKed: a mismatch is a bug in the family.
//  - One thread calls at a time (the engine thread). Calls may return before a device has finished;
//  synchronize() waits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "ops/activation.h"
#include "ops/stored_matrix.h"
#include "tensor/tensor.h"

namespace saccade {

// A weight matrix [out, in] in whatever layout the device likes. Made once at load; opaque to
// models.
class PackedWeight {
 public:
  PackedWeight(std::int64_t out, std::int64_t in) : out_(out), in_(in) {}
  virtual ~PackedWeight() = default;
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;
  std::int64_t out() const { return out_; }
  std::int64_t in() const { return in_; }
  virtual std::size_t bytes() const = 0;
  // What gemm rounds each activation to before multiplying by this weight: kF32 (exact), or kBf16
  // where the device multiplies bf16 only (AMX tiles, for weights packed as kBf16). Products and
  // sums are f32 either way.
  virtual DType operand_dtype() const = 0;

 private:
  std::int64_t out_;
  std::int64_t in_;
};

// y = act(x W^T + bias) + residual
struct GemmArgs {
  View x;  // [rows, in]
  const PackedWeight* weight = nullptr;
  View bias;  // [1, out] f32, or empty
  Activation activation = Activation::kNone;
  View residual;  // [rows, out] or empty; may be y itself
  View y;         // [rows, out]
};

// out = normalise(x [+ add]) * (offset + weight) [+ bias].   With `add`, x := x + add first (the
// residual stream).
struct NormArgs {
  View x;       // [rows, cols]; written only when `add` is given
  View add;     // [rows, cols] or empty
  View weight;  // [1, cols] f32
  View bias;    // [1, cols] f32 or empty (LayerNorm)
  float epsilon = 1e-6f;
  float weight_offset = 0;     // 1 for Gemma's (1 + w)
  bool subtract_mean = false;  // true: LayerNorm; false: RMSNorm
  View out;                    // [rows, cols]; may be x
};

// Angles of one forward, shared by all its layers. Pair p of row r turns by positions[axis[p]][r] *
// inv_freq[p].
struct RopeTableArgs {
  std::span<const std::span<const std::int32_t>> positions;  // [axes][rows]
  std::span<const float> inv_freq;                           // [pairs]
  std::span<const std::uint8_t> axis;                        // [pairs], or empty: all axis 0
  float scale = 1;                                           // LongRoPE's factor on cos and sin
  View cos;                                                  // [rows, pairs] f32
  View sin;                                                  // [rows, pairs] f32
};

// Rotates in place, half-split: element p pairs with p + pairs, for each head; dims from 2 * pairs
// on are kept.
struct RopeArgs {
  View x;  // [rows, heads * head_dim]
  std::int64_t head_dim = 0;
  View cos;
  View sin;
};

// Keys and values of one layer inside the paged pool. Block b of the layer begins at
// base + b * block_stride: K [kv_heads, block_size, head_dim], then V of the same shape.
struct KvLayer {
  std::byte* base = nullptr;
  std::size_t block_stride = 0;  // bytes
  std::int64_t block_size = 0;   // tokens
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  DType dtype = DType::kF32;
};

// Tokens [begin, end) of a sequence.
struct TokenInterval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// One sequence's rows in a step: rows [row_begin, row_begin + row_count) of q are its tokens at
// positions [context, context + row_count), context tokens being in the pool already. Every row
// below `prefix` needs the whole prefix in the pool: prefix <= context + row_count whenever
// context < prefix. The same goes for each interval of `both_ways` that a row lies in.
struct SequenceSpan {
  std::int64_t row_begin = 0;
  std::int64_t row_count = 0;
  std::int64_t context = 0;
  std::int64_t prefix =
      0;  // tokens [0, prefix) see each other both ways (PaliGemma); 0: causal throughout
  std::span<const std::int32_t>
      blocks;  // block ids, token t in blocks[t / block_size]; -1 where a window let go
  // Each one's tokens see each other both ways, what comes before as all others do (Gemma-3's
  // images). Ascending and apart; not with a prefix.
  std::span<const TokenInterval> both_ways = {};
};

// Stores the k and v rows of every span at its positions. Rows are [rows, kv_heads * head_dim].
struct KvWriteArgs {
  std::span<const SequenceSpan> spans;
  View k;
  View v;
  KvLayer layer;
};

// Softmax(q k^T * scale) v over the pool, the step's own tokens included (kv_write comes first).
// Token at position p sees [max(0, p - window + 1), p] (window 0: unbounded), or [0, prefix) when p
// < prefix. In an interval of `both_ways` it sees on to the interval's end.
struct PagedAttentionArgs {
  std::span<const SequenceSpan> spans;
  View q;  // [rows, heads * head_dim]
  KvLayer layer;
  std::int64_t heads = 0;
  float scale = 1;
  std::int64_t window = 0;  // tokens, 0 for none
  float softcap = 0;        // s := cap * tanh(s / cap); 0 for none
  // kBf16 lets a device round q and the probabilities to bf16 where its matrix unit needs that
  // (AMX, with a bf16 KvLayer); kF32 is exact everywhere.
  DType compute = DType::kF32;
  View out;  // [rows, heads * head_dim]
};

// Ragged attention without a pool: rows [begins[i], begins[i+1]) attend among themselves. For
// vision towers and sentence encoders.
struct SegmentAttentionArgs {
  std::span<const std::int32_t> begins;  // [segments + 1], begins[0] = 0, last = rows
  View q;                                // [rows, heads * head_dim]
  View k;                                // [rows, kv_heads * head_dim]
  View v;                                // [rows, kv_heads * head_dim]
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  float scale = 1;
  DType compute = DType::kF32;  // as in PagedAttentionArgs; k and v are rounded too
  View out;                     // [rows, heads * head_dim]
};

// out[i] = act(gate[i]) * up[i]
struct GatedArgs {
  View gate;  // [rows, cols]
  View up;    // [rows, cols]
  Activation activation = Activation::kSilu;
  View out;  // [rows, cols]; may be gate
};

// out row i = table row ids[i] * scale. `table` is f32, bf16 or f16; or, so that a tied embedding
// is stored once, the table is the rows of a packed weight.
struct EmbedArgs {
  View table;  // [vocab, cols], or empty with `packed`
  const PackedWeight* packed = nullptr;
  std::span<const std::int32_t> ids;
  float scale = 1;
  View out;  // [ids, cols]
};

// out row i = sum over j < taps of weights[i * taps + j] * x row rows[i * taps + j]. One tap of
// weight 1 is a gather; four taps are bilinear resampling of a feature grid. `weights` empty:
// all 1.
struct MixRowsArgs {
  View x;
  std::span<const std::int32_t> rows;
  std::span<const float> weights;
  std::int64_t taps = 1;
  View out;  // [rows / taps, cols]
};

// out row rows[i] = x row i; other rows of out are kept. Rows are distinct. dtypes may differ
// (rounded to nearest).
struct ScatterRowsArgs {
  View x;
  std::span<const std::int32_t> rows;
  View out;
};

// Largest logit and log(sum(exp(logit))) of each row: all that greedy sampling and
// log-probabilities need.
struct RowStats {
  std::int32_t argmax = 0;  // lowest index among equals
  float max = 0;
  float log_sum_exp = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;    // "cpu"
  virtual std::string description() const = 0;  // "cpu avx512, 2 threads"
  virtual DType activation_dtype() const = 0;
  virtual ThreadPool& pool() = 0;  // host pool

  // Memory of the device. Scratch and caches are made at start-up; a step allocates nothing.
  virtual Result<Buffer> allocate(std::size_t bytes) = 0;
  virtual void copy(View from, View to) = 0;  // same extents; converts between f32, bf16 and f16
  virtual void synchronize() = 0;

  // `parts` are stacked along `out` (fused q/k/v, gate/up), and read during the call only. The
  // device decides what to keep of them. `compute` chooses what is multiplied: kF32 exact weights,
  // kBf16 weights rounded to bf16 (activations stay f32 unless PackedWeight::operand_dtype says
  // otherwise).
  virtual std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts,
                                             DType compute) = 0;

  virtual void gemm(const GemmArgs& args) = 0;
  virtual void norm(const NormArgs& args) = 0;
  virtual void rope_table(const RopeTableArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void kv_write(const KvWriteArgs& args) = 0;
  virtual void paged_attention(const PagedAttentionArgs& args) = 0;
  virtual void segment_attention(const SegmentAttentionArgs& args) = 0;
  virtual void gated(const GatedArgs& args) = 0;
  virtual void embed(const EmbedArgs& args) = 0;
  virtual void mix_rows(const MixRowsArgs& args) = 0;
  virtual void scatter_rows(const ScatterRowsArgs& args) = 0;
  virtual void add(View x, View y, float scale) = 0;  // y += scale * x; x of one row is broadcast
  virtual void softcap(View x, float cap) = 0;        // x = cap * tanh(x / cap)
  virtual void row_stats(View logits, std::span<RowStats> out) = 0;
};

// threads: 0 for one per core. isa: "" for the best the machine has, else "portable", "avx2",
// "avx512" or "amx"; the environment's SACCADE_CPU stands in when it is empty. kUnsupported when
// this machine lacks it. All but "amx" multiply in f32; "amx" is "avx512" plus bf16 tiles where the
// caller chose bf16 (pack's and attention's `compute`).
Result<std::unique_ptr<Backend>> make_cpu_backend(int threads, std::string_view isa = {});
// The slow twin as a Backend (double-precision accumulation, one thread).
std::unique_ptr<Backend> make_reference_backend();
// kUnsupported with what to install when this build has no CUDA.
Result<std::unique_ptr<Backend>> make_cuda_backend(int device);

}  // namespace saccade
