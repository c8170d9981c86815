// The one kernel interface. A Device owns memory and packs weights; its Streams order about
// fifteen coarse operations over row matrices. Families compose them; a device implements them
// (docs/add-a-device.md). One translation of each, in double precision and obviously right, is
// ops/reference/reference.cc; ops/shapes.h checks the shapes.
//
// Time:
//  - A stream runs its work in the order of the calls, and calls may return before any of it has
//    run. Streams (lanes) run beside each other; only record() and wait() order one after another.
//  - Host memory that an argument refers to (spans, host views, a plan's block tables) is read
//    during the call and never after it. The one exception is where download() writes.
//  - Device memory that an argument refers to is read and written when the work runs: it must not
//    be freed, nor used by another lane, before an event says that the stream has passed.
//  - What upload() and plan_*() return is good for calls on the same stream until its next
//    retire().
//  - No call but Event::synchronize() and synchronize() waits for the device.
//  - One thread calls at a time (the engine thread), whichever the stream.
//
// Values:
//  - Activations are of activation_dtype() (f32 on the CPU) unless the argument says otherwise.
//  - Row r of a result depends on row r of the operands (and, for attention, on its own sequence)
//    alone, bit for bit: not on how many rows share the call, nor on which other sequences do.
//    Batches, chunks and thread counts therefore never change a token.
//  - Zero rows are legal and do nothing. Shapes are CHECKed: a mismatch is a bug in the family.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/threads/thread_pool.h"
#include "ops/activation.h"
#include "ops/cut_patches.h"
#include "ops/device_array.h"
#include "ops/event.h"
#include "ops/formats/stored_matrix.h"
#include "ops/kv_layer.h"
#include "ops/sampling.h"
#include "ops/token_interval.h"
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
  // What gemm rounds each activation to before multiplying by this weight: kF32 (exact), kBf16
  // where the device multiplies bf16 only (bf16 and AMX, weights packed as kBf16), or kI8 and kE4m3
  // (those packed as such). Products and sums are f32, and of kI8 exact.
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
// residual stream). With `group`, every `group` columns of a row are normalised by themselves: the
// heads of queries and keys in one call.
struct NormArgs {
  View x;                  // [rows, cols]; written only when `add` is given
  View add;                // [rows, cols] or empty
  View weight;             // [1, cols] f32
  View bias;               // [1, cols] f32 or empty (LayerNorm)
  std::int64_t group = 0;  // columns; 0: the whole row
  float epsilon = 1e-6f;
  float weight_offset = 0;     // 1 for Gemma's (1 + w)
  bool subtract_mean = false;  // true: LayerNorm; false: RMSNorm
  View out;                    // [rows, cols]; may be x
};

// Angles of one forward, shared by all its layers. Pair p of row r turns by
// positions[axis[p] * rows + r] * inv_freq[table[r]][p].
struct RopeTableArgs {
  DeviceInts positions;  // [axes, rows]
  View inv_freq;         // [tables, pairs] f32
  View axis;             // [1, pairs] u8, or empty: all axis 0
  DeviceInts tables;     // [rows], or empty: all 0
  float scale = 1;       // LongRoPE's factor on cos and sin
  View cos;              // [rows, pairs] f32
  View sin;              // [rows, pairs] f32
};

// Rotates in place, half-split: element p pairs with p + pairs, for each head; dims from 2 * pairs
// on are kept.
struct RopeArgs {
  View x;  // [rows, heads * head_dim]
  std::int64_t head_dim = 0;
  View cos;
  View sin;
};

// One sequence's rows in a step: rows [row_begin, row_begin + row_count) of q are its tokens at
// positions [context, context + row_count), context tokens being in the pool already. Every row
// below `prefix` needs the whole prefix in the pool, as does each `both_ways` interval that a row
// lies in. Rows whose own keys are not written (cross attention) may be fewer than their prefix.
struct SequenceSpan {
  std::int64_t row_begin = 0;
  std::int64_t row_count = 0;
  std::int64_t context = 0;
  // Tokens [0, prefix) see each other both ways (PaliGemma); 0: causal throughout.
  std::int64_t prefix = 0;
  std::span<const std::int32_t>
      blocks;  // block ids, token t in blocks[t / block_size]; -1 where a window let go
  // Each one's tokens see each other both ways, what comes before as all others do (Gemma-3's
  // images). Ascending and apart; not with a prefix.
  std::span<const TokenInterval> both_ways = {};
};

// What attention is planned for.
struct AttentionGeometry {
  std::int64_t block_size = 0;  // tokens
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // tokens, 0 for none

  bool operator==(const AttentionGeometry&) const = default;
};

// How the rows of a step meet the pool, once for all layers of one block table and geometry. A
// device derives from it what its kernels need besides.
class AttentionPlan {
 public:
  // Copies what the spans refer to, and CHECKs it.
  AttentionPlan(std::span<const SequenceSpan> spans, const AttentionGeometry& geometry);
  virtual ~AttentionPlan() = default;
  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;

  const AttentionGeometry& geometry() const { return geometry_; }
  std::span<const SequenceSpan> spans() const { return spans_; }  // of the plan's own memory
  std::int64_t rows() const { return rows_; }
  std::int64_t block_end() const { return block_end_; }  // one past the largest block

 private:
  AttentionGeometry geometry_;
  std::vector<SequenceSpan> spans_;
  std::vector<std::int32_t> blocks_;
  std::vector<TokenInterval> both_ways_;
  std::int64_t rows_ = 0;
  std::int64_t block_end_ = 0;
};

// Stores the k and v rows of every span at its positions, rounded to the layer's type. Rows are
// [rows, kv_heads * head_dim].
struct KvWriteArgs {
  const AttentionPlan* plan = nullptr;
  View k;
  View v;
  KvLayer layer;
};

// What lies between the product of queries, keys and values and attention: norms of their heads,
// rotation, and keys and values into the pool. `qkv` holds the queries of all heads, then the keys,
// then the values; queries stay there, and what the keys' and values' columns hold afterwards is
// nobody's.
struct QkvArgs {
  const AttentionPlan* plan = nullptr;
  View qkv;   // [rows, (heads + 2 * kv_heads) * head_dim]
  View norm;  // of queries and keys: [1, (heads + kv_heads) * head_dim] f32, or empty: none
  float epsilon = 1e-6f;
  float weight_offset = 0;  // as in NormArgs
  bool subtract_mean = false;
  View cos;  // as in RopeArgs
  View sin;
  KvLayer layer;

  // Their columns.
  std::int64_t queries() const { return plan->geometry().heads * layer.head_dim; }
  std::int64_t keys() const { return layer.kv_heads * layer.head_dim; }
};

// Softmax(q k^T * scale) v over the pool, the step's own tokens included (kv_write comes first).
// Token at position p sees [max(0, p - window + 1), p] (window 0: unbounded), or [0, prefix) when p
// < prefix. In an interval of `both_ways` it sees on to the interval's end.
struct PagedAttentionArgs {
  const AttentionPlan* plan = nullptr;
  View q;  // [rows, heads * head_dim]
  KvLayer layer;
  float scale = 1;
  float softcap = 0;  // s := cap * tanh(s / cap); 0 for none
  // kBf16 lets a device round q and the probabilities to bf16 where its matrix unit needs that
  // (AMX, with a KvLayer of bf16 or of bytes); kF32 is exact everywhere.
  DType compute = DType::kF32;
  View out;  // [rows, heads * head_dim]
};

struct SegmentGeometry {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
};

// Which rows attend among themselves: [begins[i], begins[i+1]). Once for all layers.
class SegmentPlan {
 public:
  // begins: [segments + 1], ascending from 0.
  SegmentPlan(std::span<const std::int32_t> begins, const SegmentGeometry& geometry);
  virtual ~SegmentPlan() = default;
  SegmentPlan(const SegmentPlan&) = delete;
  SegmentPlan& operator=(const SegmentPlan&) = delete;

  const SegmentGeometry& geometry() const { return geometry_; }
  std::span<const std::int32_t> begins() const { return begins_; }
  std::int64_t rows() const { return begins_.back(); }

 private:
  SegmentGeometry geometry_;
  std::vector<std::int32_t> begins_;
};

// Ragged attention without a pool. For vision towers and sentence encoders.
struct SegmentAttentionArgs {
  const SegmentPlan* plan = nullptr;
  View q;  // [rows, heads * head_dim]
  View k;  // [rows, kv_heads * head_dim]
  View v;  // [rows, kv_heads * head_dim]
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

// y = out(act(in(x))) + residual, or of a gated MLP, whose `in` stacks the outputs of gate and up,
// out(act(gate(x)) * up(x)) + residual. What is between the products is rounded as gemm would round
// it, and need never be in memory as it is.
struct MlpArgs {
  View x;                            // [rows, in]
  const PackedWeight* in = nullptr;  // [width, in], or [2 * width, in]: the gate's outputs first
  View in_bias;                      // [1, in's outputs] f32, or empty
  Activation activation = Activation::kSilu;
  const PackedWeight* out = nullptr;  // [out, width]
  View out_bias;                      // [1, out] f32, or empty
  View residual;                      // [rows, out] or empty; may be y itself
  // Room for the op's own use, of activation_dtype(); what it leaves there is nobody's.
  View inner;  // [rows, in's outputs]
  View y;      // [rows, out]; may be x

  bool gated() const { return in->out() == 2 * out->in(); }
};

// norm, then of its result the product or the MLP; that result need never be in memory, and what
// its place holds afterwards is nobody's.
struct NormedGemmArgs {
  NormArgs norm;
  GemmArgs gemm;  // x: norm.out
};
struct NormedMlpArgs {
  NormArgs norm;
  MlpArgs mlp;  // x: norm.out
};

// One expert: down(act(gate(x)) * up(x)).
struct ExpertWeights {
  const PackedWeight* gate_up = nullptr;  // [2 * width, in], the gate's outputs first
  const PackedWeight* down = nullptr;     // [out, width]
};

// y row r becomes (or with `add` gains) the sum over the `per_row` likeliest experts of x row r,
// each times its probability: the softmax of the row's logits over all experts, or with `normalise`
// over those chosen. Of equal logits the lower index is the likelier.
struct ExpertsArgs {
  View x;       // [rows, in]
  View logits;  // [rows, experts] f32
  std::span<const ExpertWeights> experts;
  std::int64_t per_row = 1;
  bool normalise = true;
  Activation activation = Activation::kSilu;
  bool add = false;
  // Room for the op's own use, of activation_dtype(); what it leaves there is nobody's.
  View gathered;  // [rows, in]
  View inner;     // [rows, 2 * width]
  View part;      // [rows, out]
  View y;         // [rows, out]
};

// One sequence's rows in a step, and the page of its recurrent state: rows [row_begin, row_begin +
// row_count) are its next tokens. `fresh`: they are its first; what the page holds counts for
// nothing.
struct StateSpan {
  std::int32_t row_begin = 0;
  std::int32_t row_count = 0;
  std::int32_t page = 0;
  std::int32_t fresh = 0;
};
using StateSpans = DeviceArray<StateSpan>;

// A convolution along each sequence, every column by itself: out row t = act(sum over j < taps of
// weight row j * x row t - taps + 1 + j); rows before a sequence's first are zeros.
struct CausalConvArgs {
  View x;            // [rows, cols]
  View weight;       // [taps, cols] f32, 2 to 8 taps
  StateSpans spans;  // each row in at most one, ascending; rows in none are left as they are
  View states;       // [pages, (taps - 1) * cols] f32: the last taps - 1 rows of x, oldest first
  Activation activation = Activation::kSilu;
  View out;  // [rows, cols]; may be x
};

// The gated delta rule (arXiv:2412.06464), token by token. Value head h with key head h / (value
// heads / key heads) keeps S [key_dim, value_dim], and with k and q of length 1:
//   S := exp(-exp(a_log) * softplus(a + dt_bias)) * S
//   S := S + k (sigmoid(b) * (v - S^T k))^T
//   out = scale * S^T q
struct DeltaRuleArgs {
  View q;        // [rows, key_heads * key_dim]; may be given their length in place, as k
  View k;        // the same
  View v;        // [rows, value_heads * value_dim]
  View a;        // [rows, value_heads]
  View b;        // the same
  View a_log;    // [1, value_heads] f32
  View dt_bias;  // the same
  StateSpans spans;
  View states;  // [pages, value_heads * key_dim * value_dim] f32
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  float scale = 1;
  float epsilon = 1e-6f;  // added to the sum of squares that a length is the root of
  View out;               // [rows, value_heads * value_dim]; may be v
};

// out row i = table row ids[i] * scale. `table` is f32, bf16 or f16; or, so that a tied embedding
// is stored once, the table is the rows of a packed weight.
struct EmbedArgs {
  View table;  // [vocab, cols], or empty with `packed`
  const PackedWeight* packed = nullptr;
  // One below 0 is not known yet: it will be in row -1 - id of last_tokens, where sample() leaves
  // it.
  DeviceInts ids;
  View last_tokens = {};  // [slots, 1] i32, or empty: all are known
  float scale = 1;
  View out;  // [ids, cols]
};

// out row i = sum over j < taps of weights[i * taps + j] * x row rows[i * taps + j]. One tap of
// weight 1 is a gather; four taps are bilinear resampling of a feature grid. `weights` empty:
// all 1.
struct MixRowsArgs {
  View x;
  DeviceInts rows;
  DeviceFloats weights;
  std::int64_t taps = 1;
  View out;  // [rows / taps, cols]
};

// Row to_rows[i] of `to` becomes (or with `add` gains) row from_rows[i] of `from`; other rows are
// kept. A list that is empty counts 0, 1, 2, ... Rows to go to are distinct; -1 goes nowhere.
// dtypes may differ (rounded to nearest).
struct CopyRowsArgs {
  View from;
  DeviceInts from_rows;
  View to;
  DeviceInts to_rows;
  bool add = false;  // `to` is of activation_dtype()

  std::int64_t count() const {
    if (!from_rows.empty()) return from_rows.size();
    return !to_rows.empty() ? to_rows.size() : from.rows();
  }
};

// Largest logit and log(sum(exp(logit))) of each row: all that greedy sampling and
// log-probabilities need.
struct RowStats {
  std::int32_t argmax = 0;  // lowest index among equals
  float max = 0;
  float log_sum_exp = 0;
};

// One token for each row asked for (ops/sampling.h).
struct SampleArgs {
  View logits;                        // [n, vocab] f32
  View stats;                         // of them: what row_stats() wrote
  std::span<const SamplingRow> rows;  // [m]
  View last_tokens;                   // [slots, 1] i32, or empty where no row has a slot
  View sampled;                       // [m, sizeof(SampledToken)] u8
  View alternatives;  // [m, k * sizeof(TokenLogit)] u8, k at least what a row asks for; or empty
};

class Device;

// One lane of a device.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() = 0;

  // A list of the host in the device's memory. A device may gather several and send them with the
  // next op.
  template <typename T>
  DeviceArray<T> upload(std::span<const T> list) {
    static_assert(alignof(T) <= 16);
    if (list.empty()) return {};
    return DeviceArray<T>(reinterpret_cast<const T*>(upload_bytes(std::as_bytes(list))),
                          static_cast<std::int64_t>(list.size()), space());
  }
  template <typename T>
  DeviceArray<T> upload(const std::vector<T>& list) {
    return upload(std::span<const T>(list));
  }
  // spans: every row of the step, in order. begins: as SegmentPlan.
  virtual const AttentionPlan& plan_attention(std::span<const SequenceSpan> spans,
                                              const AttentionGeometry& geometry) = 0;
  virtual const SegmentPlan& plan_segments(std::span<const std::int32_t> begins,
                                           const SegmentGeometry& geometry) = 0;
  // Ends the life of the lists and plans made since the last retire(). Work that has been submitted
  // keeps them until it is done.
  virtual void retire() = 0;

  // Same extents; f32, bf16 and f16 become each other, other types stay themselves.
  virtual void upload(View from, View to) = 0;  // a host matrix, of any memory, to the device
  // The numbers of a stored matrix, `to` [out, in] of f32, bf16 or f16. Made-up ones are made where
  // they are to be, if the device can.
  virtual void fill(const StoredMatrix& from, View to);
  virtual void copy(View from, View to) = 0;  // within the device
  // `to` is memory of Device::allocate(kHost); it is written at any time until the stream has
  // passed.
  virtual void download(View from, View to) = 0;

  virtual Event record() = 0;              // passed once the work submitted so far is done
  virtual void wait(const Event& of) = 0;  // what is submitted from here on runs after it
  virtual void synchronize() = 0;          // blocks until all work submitted is done

  // What is submitted between these two is what it was the last time with this `kind`, but for what
  // its lists and plans hold: a device may make one launch of it. It need not be so, and then takes
  // the time that it takes without. Lists and plans are made between the two; results of them are
  // read by the host after end_repeated() only.
  virtual void begin_repeated(std::int64_t kind) { static_cast<void>(kind); }
  virtual void end_repeated() {}

  virtual void gemm(const GemmArgs& args) = 0;
  virtual void norm(const NormArgs& args) = 0;
  virtual void rope_table(const RopeTableArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void kv_write(const KvWriteArgs& args) = 0;
  // Composed of norm, rope and kv_write, where a device has no better way.
  virtual void qkv(const QkvArgs& args);
  virtual void paged_attention(const PagedAttentionArgs& args) = 0;
  virtual void segment_attention(const SegmentAttentionArgs& args) = 0;
  virtual void gated(const GatedArgs& args) = 0;
  // Composed of gemm and gated, where a device has no better way.
  virtual void mlp(const MlpArgs& args);
  // Composed of norm and gemm, or mlp, likewise.
  virtual void normed_gemm(const NormedGemmArgs& args);
  virtual void normed_mlp(const NormedMlpArgs& args);
  // Only where Device::has_experts().
  virtual void experts(const ExpertsArgs&) { CHECK(false, "this device has no experts"); }
  // Only where Device::has_recurrence().
  virtual void causal_conv(const CausalConvArgs&) { CHECK(false, "no recurrence on this device"); }
  virtual void delta_rule(const DeltaRuleArgs&) { CHECK(false, "no recurrence on this device"); }
  virtual void embed(const EmbedArgs& args) = 0;
  virtual void mix_rows(const MixRowsArgs& args) = 0;
  // Only where Device::cuts_patches().
  virtual void cut_patches(const CutPatchesArgs&) { CHECK(false, "this device cuts no patches"); }
  virtual void copy_rows(const CopyRowsArgs& args) = 0;
  virtual void add(View x, View y, float scale) = 0;    // y += scale * x; x of one row is broadcast
  virtual void softcap(View x, float cap) = 0;          // x = cap * tanh(x / cap)
  virtual void row_stats(View logits, View stats) = 0;  // stats: [rows, sizeof(RowStats)] u8
  virtual void sample(const SampleArgs& args) = 0;

 protected:
  // Of the device's own memory; 16-byte aligned.
  virtual const std::byte* upload_bytes(std::span<const std::byte> bytes) = 0;
  virtual Space space() const = 0;  // of that memory
};

// kStep: forwards. kEncode: vision towers. kCopy: weights, and pages on their way elsewhere.
enum class Lane : std::uint8_t { kStep, kEncode, kCopy };
constexpr std::size_t kLanes = 3;

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;    // "cpu"
  virtual std::string description() const = 0;  // "cpu avx512, 2 threads"
  virtual DType activation_dtype() const = 0;
  virtual ThreadPool& pool() = 0;  // of the host, for work of the host

  // Zeroed memory. kDevice: for ops (on a CPU it is the host's, and its buffer says so). kHost: for
  // downloads. Scratch and caches are made at start-up; a step allocates nothing. kExhausted.
  virtual Result<Buffer> allocate(std::size_t bytes, Space space = Space::kDevice) = 0;
  // Where allocate(kDevice) lies.
  virtual Space space() const = 0;
  // Bytes of space() that may still be allocated; 0 when it cannot be told.
  virtual std::int64_t free_bytes() const = 0;
  // Bytes of space() in all, where it is the device's own; 0 where it is the host's.
  virtual std::int64_t total_bytes() const { return 0; }
  // Whether begin_repeated() is worth the rows that make steps of one size alike.
  virtual bool makes_graphs() const { return false; }

  // `parts` are stacked along `out` (fused q/k/v, gate/up), and read during the call only. The
  // device decides what to keep of them. `compute` chooses what is multiplied: kF32 exact weights,
  // kBf16 weights rounded to bf16 (activations stay f32 unless PackedWeight::operand_dtype says
  // otherwise), kI8 both as ops/formats/int8_rows.h rounds them: weights by output, here and now,
  // activations by row, in gemm. Sums of kI8 are exact, so that all devices give the same bits but
  // for the activation; not every device has them (multiplies_int8()). kE4m3 of matrices that are
  // such numbers: they stay what they are, and activations become E4M3 in gemm, as
  // ops/formats/e4m3_rows.h rounds them; matrices without a shared_e4m3_group() are packed as
  // kBf16. Not every device has these either (multiplies_e4m3()), and none where activations are
  // f32: that is the arithmetic in which devices are compared.
  virtual std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts,
                                             DType compute) = 0;
  // Whether pack() takes kI8.
  virtual bool multiplies_int8() const { return false; }
  // Whether it rounds activations to bytes for codes of four bits whose matrices say so.
  virtual bool multiplies_w4a8() const { return false; }
  // Whether it is to be given kE4m3 where a checkpoint states that its activations are rounded so.
  virtual bool multiplies_e4m3() const { return false; }
  // What a KvLayer's blocks may be.
  virtual bool caches(DType cache) const { return !is_coded(cache); }
  // Whether its streams do experts().
  virtual bool has_experts() const { return false; }
  // Whether they do causal_conv() and delta_rule().
  virtual bool has_recurrence() const { return false; }
  // Whether they do cut_patches(): elsewhere the host cuts, and uploads numbers.
  virtual bool cuts_patches() const { return false; }

  // The counts of a new sequence: what sample() takes. `prompt` is read during the call.
  virtual std::unique_ptr<TokenCounts> count_tokens(std::span<const std::int32_t> prompt) = 0;

  virtual Stream& lane(Lane lane) = 0;
  void synchronize() {  // all lanes
    for (std::size_t i = 0; i < kLanes; ++i) lane(static_cast<Lane>(i)).synchronize();
  }
};

// threads: 0 for one per core. isa: "" for the best the machine has, else "portable", "neon",
// "dotprod" (ARM), "avx2", "avxvnni", "avx512", "vnni", "bf16" or "amx" (x86-64); the environment's
// SACCADE_CPU stands in when it is empty.
// kUnsupported when this machine lacks it. Floats are multiplied in f32 but by "bf16" and "amx",
// where the caller chose bf16 (pack's and attention's `compute`). "avxvnni", and all from "vnni"
// on, have an instruction for weights packed as kI8. Work runs during the call that submits it.
Result<std::unique_ptr<Device>> make_cpu_device(int threads, std::string_view isa = {});
// The slow twin as a Device (double-precision accumulation, one thread). Its pack() takes every
// type; what it says of kE4m3 is for the caller to choose.
std::unique_ptr<Device> make_reference_device(bool multiplies_e4m3 = false);
// Whose attention: kAuto FlashInfer's where it is there, fits and does what it should, kOwn the own
// kernels, kFlashInfer as kAuto, and an error where it cannot be used.
enum class AttentionBackend : std::uint8_t { kAuto, kOwn, kFlashInfer };

struct CudaSettings {
  // Where NVIDIA's libraries lie that are opened at run time: a folder, a file, or "none" for the
  // own kernels alone. Empty: the variable SACCADE_CUDA_LIBS, or else the usual places.
  std::string libraries = {};
  // A row's bits are the same in batches of every size, at the price of speed. Otherwise they are
  // so in batches of one class of sizes (ops/cuda/libraries/product_table.h).
  bool batch_invariant = false;
  AttentionBackend attention = AttentionBackend::kAuto;

  bool operator==(const CudaSettings&) const = default;
};
// kUnsupported with what to install when this build has no CUDA, or when attention is to be
// FlashInfer's and cannot be; kNotFound when libraries are not where the settings or the variable
// say.
Result<std::unique_ptr<Device>> make_cuda_device(int index, const CudaSettings& settings = {});

}  // namespace saccade
