// The CPU's Device: one method an op, each in its own file; what they share is here.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "ops/cpu/expert_routes.h"
#include "ops/cpu/isa/isa.h"
#include "ops/cpu/isa/kernels.h"
#include "ops/cpu/token_sampler.h"
#include "ops/cpu/weights/four_bit_weight.h"
#include "ops/formats/packed_form.h"
#include "ops/host_stream.h"
#include "ops/partial_attention.h"

namespace saccade::cpu {

// Working memory that grows to the largest use and stays: a step allocates nothing once it has seen
// its largest batch. 64-byte aligned.
class Scratch {
 public:
  template <typename T>
  T* reserve(std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > buffer_.bytes()) grow(bytes);
    return reinterpret_cast<T*>(buffer_.data());
  }

 private:
  void grow(std::size_t bytes);
  Buffer buffer_;
};

// A weight as panels of `lanes` output columns: the order in which the kernels read it, so that a
// decode step streams memory from first byte to last.
//   f32   [panels][in][lanes]
//   bf16  [panels][in / 2][lanes][2]: one vector load gives two steps of depth, and a panel is also
//         a row of tiles
//   int8  [panels][in / 4][lanes][4], and a scale an output
// What fills up the last panel and the last step of depth is zeros.
class PanelWeight final : public PackedWeight {
 public:
  // `depth_unit`: inputs are filled up with zeros to a multiple of it.
  PanelWeight(std::int64_t out, std::int64_t in, DType type, std::int64_t lanes,
              std::int64_t depth_unit, DType operand);
  PackedForm form() const;
  // As RestoresPacked::restore(), of a device whose panels have so many lanes.
  static std::unique_ptr<PackedWeight> restore(const PackedForm& form, std::int64_t lanes,
                                               std::shared_ptr<const void> owner);
  std::size_t bytes() const override {
    return storage_.bytes() + scales_.size() * sizeof(float) + starts_.size() * sizeof(float);
  }
  DType operand_dtype() const override { return operand_; }

  DType type() const { return type_; }
  std::int64_t panels() const { return panels_; }
  std::int64_t lanes() const { return lanes_; }
  std::int64_t panel_bytes() const { return panel_bytes_; }
  std::byte* panel(std::int64_t index) const { return storage_.data() + index * panel_bytes_; }
  // Of kI8, for whole panels: what sums are multiplied by, and what they begin at.
  const float* scales(std::int64_t panel) const { return scales_.data() + panel * lanes_; }
  const std::int32_t* starts(std::int64_t panel) const { return starts_.data() + panel * lanes_; }
  // Row `out` of the matrix, unpacked.
  void unpack_row(std::int64_t out, float* values) const;
  // Row `out`, columns from `col` on, from `cols` numbers. `col` is even; cols too, unless they are
  // the row's last.
  void store(std::int64_t out, std::int64_t col, const std::byte* numbers, DType type,
             std::int64_t cols, const Kernels& kernels);
  // Row `out` of kI8, whole: codes by fours, zeros behind the last. `offset`: Int8Kernels'.
  void store_codes(std::int64_t out, std::span<const std::uint32_t> fours, float scale,
                   std::int32_t offset);

 private:
  struct Shape {
    std::int64_t out;
    std::int64_t in;
    DType type;
    std::int64_t lanes;
    std::int64_t depth_unit;
    DType operand;
  };
  explicit PanelWeight(const Shape& shape);  // without its memory
  std::size_t storage_bytes() const { return static_cast<std::size_t>(panels_ * panel_bytes_); }

  DType type_;
  DType operand_;
  std::int64_t lanes_;
  std::int64_t depth_unit_;
  std::int64_t panels_;
  std::int64_t panel_bytes_;
  Buffer storage_;
  std::vector<float> scales_;
  std::vector<std::int32_t> starts_;
};

// Whose keys and values are packed: of segments [first, end), for kv heads [kv_begin, kv_end).
struct PackedSegments {
  const SegmentPlan* plan = nullptr;
  Index kv_begin = 0;
  Index kv_end = 0;
  std::size_t first = 0;
  std::size_t end = 0;

  bool operator==(const PackedSegments&) const = default;
};

class CpuDevice final : public Device, public RestoresPacked {
 public:
  CpuDevice(int threads, Isa isa);
  ~CpuDevice() override;

  std::string_view name() const override { return "cpu"; }
  std::string description() const override;
  DType activation_dtype() const override { return DType::kF32; }
  ThreadPool& pool() override { return pool_; }
  Result<Buffer> allocate(std::size_t bytes, Space) override { return allocate_host(bytes); }
  Space space() const override { return Space::kHost; }
  std::int64_t free_bytes() const override;
  std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts, DType compute) override;
  std::string packing() const override;
  PackedForm form_of(const PackedWeight& weight) const override;
  std::unique_ptr<PackedWeight> restore(const PackedForm& form,
                                        std::shared_ptr<const void> owner) const override;
  bool multiplies_int8() const override { return true; }
  bool multiplies_w4a8() const override { return true; }
  bool caches(DType) const override { return true; }
  bool has_experts() const override { return true; }
  bool has_recurrence() const override { return true; }
  std::unique_ptr<TokenCounts> count_tokens(std::span<const std::int32_t> prompt) override {
    return std::make_unique<CpuTokenCounts>(prompt);
  }
  Stream& lane(Lane lane) override;

 private:
  friend class CpuStream;

  std::unique_ptr<PackedWeight> pack_int8(std::span<const StoredMatrix> parts);

  Isa isa_;
  const Kernels& kernels_;
  const TileKernels* tiles_;  // null where bf16 is not multiplied as such
  const Int8Kernels& int8_;
  const FourBitKernels& four_bits_;
  const W4A8Kernels& w4a8_;
  ThreadPool pool_;
  // Of all lanes: one thread calls, and an op is over when its call returns.
  std::vector<Scratch> scratch_;        // one a worker
  std::vector<TokenSampler> samplers_;  // one a worker
  Scratch shared_;                      // written by one phase of an op, read by its next
  Scratch inner_;                       // as shared_: between the two products of an MLP
  Scratch ordered_;                     // x in the order of a weight's inputs
  Scratch packed_;                      // keys and values of packed_segments_
  PackedSegments packed_segments_;
  ExpertRoutes routes_;
  std::vector<std::unique_ptr<Stream>> lanes_;
};

// Rows rounded to bytes, as tiles of a matrix unit.
struct Int8Tiles {
  const std::uint8_t* tiles = nullptr;  // [row tiles][depth tiles][16][64]
  const float* scales = nullptr;        // one a row
};

class CpuStream final : public HostStream, public PartialAttention {
 public:
  explicit CpuStream(CpuDevice& device);
  Device& device() override { return device_; }

  const AttentionPlan& plan_attention(std::span<const SequenceSpan> spans,
                                      const AttentionGeometry& geometry) override;
  void copy(View from, View to) override;

  void gemm(const GemmArgs& args) override;
  void norm(const NormArgs& args) override;
  void rope_table(const RopeTableArgs& args) override;
  void rope(const RopeArgs& args) override;
  void kv_write(const KvWriteArgs& args) override;
  void paged_attention(const PagedAttentionArgs& args) override;
  void segment_attention(const SegmentAttentionArgs& args) override;
  void attend_part(const SegmentAttentionArgs& args, const SegmentPart& part) override;
  void gated(const GatedArgs& args) override;
  void mlp(const MlpArgs& args) override;
  void experts(const ExpertsArgs& args) override;
  void causal_conv(const CausalConvArgs& args) override;
  void delta_rule(const DeltaRuleArgs& args) override;
  void embed(const EmbedArgs& args) override;
  void mix_rows(const MixRowsArgs& args) override;
  void copy_rows(const CopyRowsArgs& args) override;
  void add(View x, View y, float scale) override;
  void softcap(View x, float cap) override;
  void row_stats(View logits, View stats) override;
  void sample(const SampleArgs& args) override;

 private:
  // body(row) for every row, on as many threads as the work is worth.
  template <typename Body>
  void each_row(std::int64_t rows, std::int64_t cols, Body&& body) {
    pool_.parallel_for(rows, row_grain(cols), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) body(row);
    });
  }
  // Rows that make 16 Ki elements: some microseconds of work, against one for the join.
  static std::int64_t row_grain(std::int64_t cols) {
    return cols >= 16384 ? 1 : 16384 / (cols > 0 ? cols : 1);
  }
  void gemm_tiles(const GemmArgs& args);
  // x as tiles of bf16, and y from such: args.x is not looked at then.
  const Bf16* round_tiles(View x, Bf16* tiles);
  void multiply_tiles(const GemmArgs& args, const Bf16* x);
  void gemm_few_tiles(const GemmArgs& args, const Bf16* x);
  void gemm_many_tiles(const GemmArgs& args, const Bf16* x);
  // What the second product of an MLP reads.
  void make_inner_tiles(const MlpArgs& args, const Bf16* x, Bf16* inner);
  void gemm_four_bits(const GemmArgs& args, const FourBitWeight& weight);
  void gemm_few_four_bits(const GemmArgs& args, const FourBitWeight& weight);
  void gemm_four_bits_f32(const GemmArgs& args, const FourBitWeight& weight);
  void gemm_w4a8(const GemmArgs& args, const FourBitWeight& weight);
  void gemm_int8(const GemmArgs& args);
  // Rows of bytes on a matrix unit: by weights of bytes, or codes of four bits where it takes them.
  void gemm_byte_tiles(const GemmArgs& args);
  bool codes_on_tiles() const;
  Int8Tiles round_super_block_tiles(View x, const FourBitWeight& weight);
  // A gated MLP of many rows of bytes: gate and up side by side, where gates_bytes().
  bool gates_bytes(const MlpArgs& args) const;
  void mlp_bytes(const MlpArgs& args);
  // Of up to so many rows that are rounded at a time, the first columns of `inner`: by tiles, or
  // as gemm_int8() and gemm_w4a8() multiply.
  void gate_bytes(const MlpArgs& args);
  void gate_int8(const MlpArgs& args);
  void gate_w4a8(const MlpArgs& args, const FourBitWeight& weight);
  // body(block, few, its worker's scratch) for blocks of rounded rows by so many panels: `parts`
  // times as many are multiplied in one.
  template <typename Weight, typename Body>
  void each_rounded_block(std::int64_t rows, const Weight& weight, std::int64_t parts,
                          const Body& body);
  template <typename Body>
  void each_int8_block(View x, const PanelWeight& weight, std::int64_t parts, const Body& body);
  template <typename Body>
  void each_code_block(View x, const FourBitWeight& weight, std::int64_t parts, const Body& body);
  // Of up to so many rows that are rounded at a time.
  template <typename Product>
  void multiply_bytes(const GemmArgs& args);
  // The first columns of `inner` become act(gate) * up.
  template <typename Product>
  void multiply_gated_bytes(const MlpArgs& args);
  // x in bytes, in shared scratch.
  Int8Tiles round_byte_tiles(View x, const PackedWeight& weight);
  // y gains the terms of one expert.
  void run_expert(const ExpertsArgs& args, const ExpertWeights& weights,
                  std::span<const ExpertRoutes::Visit> visits);
  // Those that may round to bf16, or those that are exact.
  const AttentionKernels& attention_kernels(bool bf16) const {
    return bf16 && tiles_ != nullptr ? tiles_->attention : kernels_.attention;
  }
  Scratch& worker_scratch(int worker) { return device_.scratch_[static_cast<std::size_t>(worker)]; }
  Scratch& shared_scratch() { return device_.shared_; }

  CpuDevice& device_;
  const Kernels& kernels_;
  const TileKernels* tiles_;
  const Int8Kernels& int8_;
  const FourBitKernels& four_bits_;
  const W4A8Kernels& w4a8_;
  ThreadPool& pool_;
};

}  // namespace saccade::cpu
