// A GPU as a Device, over runtime.h: what is decided on the host (layouts, plans, lists, arguments)
// is here; kernels.h computes. The same code runs on the GPU and, in tests, on the emulator.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/cuda/attention/attention_splits.h"
#include "ops/cuda/codes/code_kernels.h"
#include "ops/cuda/codes/dequantized_products.h"
#include "ops/cuda/device_failed.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layers/expert_kernels.h"
#include "ops/cuda/libraries/flash_attention.h"
#include "ops/cuda/libraries/product_table.h"
#include "ops/cuda/products/bias_copies.h"
#include "ops/cuda/products/e4m3_kernels.h"
#include "ops/cuda/products/few_gemm.h"
#include "ops/cuda/repeated_step.h"
#include "ops/cuda/runtime.h"
#include "ops/cuda/upload_ring.h"
#include "ops/device.h"

namespace saccade::cuda {

// Host memory is copied to the device through pinned pieces of this size at most.
inline constexpr std::size_t kBandBytes = std::size_t{8} << 20;

// Where a view is absent, it is so for the kernel: a place of no rows has an address too.
inline std::byte* data_of(View view) { return view.empty() ? nullptr : view.data(); }
inline Rows rows_of(View view) {
  return {data_of(view), view.dtype(), view.rows(), view.cols(), view.stride()};
}
inline const float* floats(View view) { return reinterpret_cast<const float*>(data_of(view)); }

// Memory that grows to the largest use and stays. What is replaced is freed by the runtime once no
// work is left that may use it.
class DeviceScratch {
 public:
  explicit DeviceScratch(Runtime& runtime) : runtime_(runtime) {}
  ~DeviceScratch();
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  std::byte* reserve(std::size_t bytes);
  bool holds(std::size_t bytes) const { return bytes <= bytes_; }  // reserve() would not move it
  std::size_t bytes() const { return bytes_; }                     // of what reserve() gave

 private:
  Runtime& runtime_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Rows [out, in] of f32 or bf16, each from a 16-byte boundary on and zero behind its last: what
// the kernels' 16-byte loads take. Or codes (code_kernels.h), whose scales lie behind them.
class CudaWeight final : public PackedWeight {
 public:
  CudaWeight(std::shared_ptr<Runtime> runtime, std::int64_t out, std::int64_t in, DType type,
             DType operand);
  // Of codes: of `like`, which has no memory yet; `ordered`: its inputs have an order.
  CudaWeight(std::shared_ptr<Runtime> runtime, const CodedRows& like, DType operand,
             bool ordered = false);
  ~CudaWeight() override;
  std::size_t bytes() const override { return bytes_; }
  DType operand_dtype() const override { return operand_; }
  const Rows& rows() const { return rows_; }                              // of numbers
  const CodedRows* codes() const { return codes_ ? &*codes_ : nullptr; }  // of codes

 private:
  std::shared_ptr<Runtime> runtime_;
  DType operand_;
  std::size_t bytes_;
  Rows rows_;  // its data: all of the weight's memory
  std::optional<CodedRows> codes_;
};
inline const CudaWeight& weight_of(const PackedWeight& weight) {
  return static_cast<const CudaWeight&>(weight);
}

// Rows of activations as codes.
struct RoundedRows {
  std::int8_t* codes = nullptr;
  std::int64_t stride = 0;
  float* scales = nullptr;
};

// Lists of weights in the memory of the device. A layer's is made when it is first asked for, and
// again when its weights are others.
class WeightTables {
 public:
  explicit WeightTables(Runtime& runtime) : runtime_(runtime) {}
  ~WeightTables();
  WeightTables(const WeightTables&) = delete;
  WeightTables& operator=(const WeightTables&) = delete;
  // Whether of() only looks it up.
  bool holds(std::span<const GroupWeight> weights);
  // For what is launched into `stream` from here on.
  const GroupWeight* of(std::span<const GroupWeight> weights, UploadRing& ring,
                        cudaStream_t stream);

 private:
  struct Table {
    std::vector<GroupWeight> weights;
    std::byte* device = nullptr;
  };
  Table& table_of(std::span<const GroupWeight> weights);

  Runtime& runtime_;
  std::unordered_map<const void*, Table> tables_;  // by the first weight's data
};

// Who computes which split of a call's keys.
struct DeviceSplits {
  AttentionSplits splits = {};    // without their scratch,
  std::size_t partial_bytes = 0;  // of which that much is wanted,
  std::int64_t ended = 0;         // and so many numbers
};

// Lists of a step's rows and sequences in the memory of the device, for kv_write and attention.
struct DeviceAttention {
  const AttentionSequence* sequences = nullptr;
  const AttentionTile* tiles = nullptr;
  std::int64_t tile_count = 0;
  std::int64_t few_tiles = 0;
  const std::int32_t* seen = nullptr;
  const std::int32_t* blocks = nullptr;
  const std::int32_t* slots = nullptr;
  DeviceSplits splits = {};
  // Where there is work in `flash`: that of the tiles from own_tile_count on, and splits of those
  // before them.
  std::int64_t own_tile_count = 0;
  DeviceSplits own_splits = {};
  FlashForm flash_form = {};
  FlashLists flash = {};
};

struct CudaAttentionPlan final : AttentionPlan {
  using AttentionPlan::AttentionPlan;
  DeviceAttention lists;
};

struct CudaSegmentPlan final : SegmentPlan {
  using SegmentPlan::SegmentPlan;
  DeviceAttention lists;
};

class CudaDevice;
struct FlashSequence;

// One array [vocab] a sequence, from the first step that samples with penalties on. Does not
// outlive its device.
class CudaTokenCounts final : public TokenCounts {
 public:
  CudaTokenCounts(CudaDevice& device, std::span<const std::int32_t> prompt);
  ~CudaTokenCounts() override;

 private:
  friend class CudaStream;
  CudaDevice& device_;
  std::vector<std::int32_t> prompt_;  // until then
  std::int32_t* counts_ = nullptr;
  std::int64_t vocab_ = 0;
};

// Destroyed after whatever goes by it.
class OwnedStream {
 public:
  OwnedStream(Runtime& runtime, int priority)
      : runtime_(runtime), stream_(runtime.make_stream(priority)) {}
  ~OwnedStream() { runtime_.destroy(stream_); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  Runtime& runtime_;
  cudaStream_t stream_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(CudaDevice& device, int priority);
  ~CudaStream() override;

  using Stream::upload;
  Device& device() override;
  const AttentionPlan& plan_attention(std::span<const SequenceSpan> spans,
                                      const AttentionGeometry& geometry) override;
  const SegmentPlan& plan_segments(std::span<const std::int32_t> begins,
                                   const SegmentGeometry& geometry) override;
  void retire() override;
  void upload(View from, View to) override;
  void fill(const StoredMatrix& from, View to) override;
  void copy(View from, View to) override;
  void download(View from, View to) override;
  Event record() override;
  void wait(const Event& of) override;
  void synchronize() override;

  void begin_repeated(std::int64_t kind) override;
  void end_repeated() override;
  const RepeatedStep& repeated() const { return repeated_; }
  // Of tests, whose sequences are short: splits of other than kAttentionSplitTokens.
  void split_keys_at(std::int32_t tokens) { split_tokens_ = tokens; }
  // What a library is given to submit into, from this thread and before the next call: after all
  // that this stream was asked for so far.
  cudaStream_t submitting() {
    flush();
    return launching();
  }

  void gemm(const GemmArgs& args) override;
  void norm(const NormArgs& args) override;
  void rope_table(const RopeTableArgs& args) override;
  void rope(const RopeArgs& args) override;
  void kv_write(const KvWriteArgs& args) override;
  void qkv(const QkvArgs& args) override;
  void paged_attention(const PagedAttentionArgs& args) override;
  void segment_attention(const SegmentAttentionArgs& args) override;
  void gated(const GatedArgs& args) override;
  void mlp(const MlpArgs& args) override;
  void normed_gemm(const NormedGemmArgs& args) override;
  void normed_mlp(const NormedMlpArgs& args) override;
  void experts(const ExpertsArgs& args) override;
  void causal_conv(const CausalConvArgs& args) override;
  void delta_rule(const DeltaRuleArgs& args) override;
  void embed(const EmbedArgs& args) override;
  void mix_rows(const MixRowsArgs& args) override;
  void cut_patches(const CutPatchesArgs& args) override;
  void copy_rows(const CopyRowsArgs& args) override;
  void add(View x, View y, float scale) override;
  void softcap(View x, float cap) override;
  void row_stats(View logits, View stats) override;
  void sample(const SampleArgs& args) override;

 protected:
  const std::byte* upload_bytes(std::span<const std::byte> bytes) override;
  Space space() const override;

 private:
  friend class CudaDevice;

  template <typename T>
  const T* send_list(std::span<const T> list) {
    return list.empty() ? nullptr : reinterpret_cast<const T*>(upload_bytes(std::as_bytes(list)));
  }
  // What a kernel is launched into: which device a thread means is the thread's own.
  cudaStream_t launching() {
    repeated_.interrupt();
    runtime_.select();
    return stream_;
  }
  // A launch, now or with the rest of a repeated step: all that its arguments point to has a place
  // of its own.
  template <typename Args>
  void launch(void (*kernel)(const Args&, cudaStream_t), const std::type_identity_t<Args>& args) {
    if (repeated_.keeps())
      repeated_.calls().add(kernel, args);
    else
      kernel(args, launching());
  }
  // Launches that are kept point into it: they are made before it moves.
  std::byte* reserve(DeviceScratch& scratch, std::size_t bytes) {
    if (!scratch.holds(bytes)) repeated_.interrupt();
    return scratch.reserve(bytes);
  }
  void flush() { lists_.send(); }  // before whatever reads a list
  // Sends what `form` takes of a plan; `own`: tiles of all others, that these come behind.
  void plan_flash(DeviceAttention& lists, const FlashForm& form, std::int64_t heads,
                  std::span<const FlashSequence> sequences, std::int64_t own);
  // As far as the lists and the call's layout let it: the tiles that are left to the own kernel.
  std::int64_t launch_flash(const DeviceAttention& lists, const AttentionKernelArgs& attention);
  DeviceSplits send_splits(const AttentionCall& call);
  std::uint32_t* reserve_ended(std::int64_t count);
  void launch_attention_of(const DeviceAttention& lists, AttentionKernelArgs kernel);
  // As one launch with its norm, if there is one, or gated; nothing: they are launches apart.
  std::optional<FewGemmKernelArgs> few_gemm(const NormArgs* norm, const GemmArgs& args, bool gated);
  bool gated_product(const NormArgs* norm, const MlpArgs& args);  // false: nothing is done
  void gemm_codes(const GemmArgs& args, const CodedRows& weight);
  RoundedRows rounded(const Rows& x);  // good until the next call
  void gemm_e4m3(const GemmArgs& args, const CodedRows& weight);
  // As `weight` wants them; `given` as in RoundE4m3KernelArgs. Good until the next call.
  E4m3Rows rounded_e4m3(const Rows& x, const CodedRows& weight, float given);
  // As OrderColsKernelArgs; good until the next call.
  Rows ordered(const Rows& x, const std::int32_t* order, const GemmGroups& groups,
               std::int64_t rows);
  void experts_of_band(const ExpertsArgs& args);
  // Of the groups whose weights are as `like`; their input_scale.
  void grouped_product(const Rows& x, const CudaWeight& like, const GemmGroups& groups,
                       float input_scale, const Rows& y);
  // By args.weight, or by `codes`. False: it is the own kernel's.
  bool multiply_by_library(const GemmKernelArgs& args, const CodedRows* codes = nullptr);
  bool multiply_apart(const GemmKernelArgs& args, Product product, const CodedRows* codes);
  void launch_by_library(const GemmKernelArgs& args, Product product, const CodedRows* codes,
                         const ProductAlgorithm& algorithm, std::int64_t first, std::int64_t count);
  // How a library's product becomes y: not taken where its sums are finished apart, and by the own
  // kernel without an algorithm.
  struct LibraryWay {
    bool taken = false;
    const ProductAlgorithm* algorithm = nullptr;
    Activation then = Activation::kNone;  // over y
  };
  LibraryWay way_in_bf16(const GemmKernelArgs& args, Product& product);
  void forget_biases(View changed);
  // Null: bf16 does not hold it.
  const std::byte* bias_in_bf16(const float* bias, std::int64_t outputs);
  bool multiply_wide(const GemmKernelArgs& args, const CodedRows& weight);
  std::int32_t* counts_of(TokenCounts& counts, std::int64_t vocab);
  SampleKernelRow sample_row(const SampleArgs& args, std::size_t index);

  CudaDevice& device_;
  Runtime& runtime_;
  OwnedStream owned_;
  cudaStream_t stream_;
  UploadRing lists_;     // and plans: until retire()
  UploadRing matrices_;  // until the stream has passed
  DeviceScratch converted_;
  DeviceScratch logits_;   // of rows that sample() adjusts
  DeviceScratch rounded_;  // rows of activations
  DeviceScratch ordered_;  // likewise
  DeviceScratch expert_scratch_;
  WeightTables weight_tables_;
  std::vector<GroupWeight> group_weights_;  // of the call
  DeviceScratch workspace_;                 // of the library's products
  DeviceScratch sums_;                      // of theirs that are finished apart
  DeviceScratch dequantized_;               // a band of codes as numbers, for them
  DeviceScratch partials_;                  // of attention
  DeviceScratch ended_;                     // AttentionSplits::ended
  std::int32_t split_tokens_ = kAttentionSplitTokens;
  // By the kind of a repeated step: parts that attention is launched as. They only grow, so that
  // steps stay alike.
  std::map<std::int64_t, std::int64_t> least_parts_;
  RepeatedStep repeated_;
  std::vector<std::unique_ptr<CudaAttentionPlan>> attention_plans_;
  std::vector<std::unique_ptr<CudaSegmentPlan>> segment_plans_;
};

class CudaDevice final : public Device {
 public:
  // `activations`: kBf16, or kF32 for comparing with other devices.
  CudaDevice(std::unique_ptr<Runtime> runtime, int threads, DType activations);
  ~CudaDevice() override;

  std::string_view name() const override { return "cuda"; }
  std::string description() const override {
    return "cuda " + runtime_->description() +
           (products_ != nullptr ? ", " + products_->library().description() : "") +
           (flash_.forms.empty() ? "" : ", " + flash_.library->description());
  }
  DType activation_dtype() const override { return activations_; }
  ThreadPool& pool() override { return pool_; }
  Result<Buffer> allocate(std::size_t bytes, Space space) override;
  Space space() const override { return runtime_->space(); }
  std::int64_t free_bytes() const override { return runtime_->free_bytes(); }
  std::int64_t total_bytes() const override { return runtime_->total_bytes(); }
  bool makes_graphs() const override { return runtime_->space() == Space::kDevice; }
  std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts, DType compute) override;
  bool multiplies_int8() const override { return true; }
  bool multiplies_e4m3() const override { return activations_ == DType::kBf16; }
  bool caches(DType) const override { return true; }
  bool has_experts() const override { return true; }
  bool has_recurrence() const override { return true; }
  bool cuts_patches() const override { return true; }
  std::unique_ptr<TokenCounts> count_tokens(std::span<const std::int32_t> prompt) override {
    return std::make_unique<CudaTokenCounts>(*this, prompt);
  }
  // Finds and opens them. An error only where somebody said where they lie: elsewhere the log says
  // why the own kernels multiply.
  Result<void> open_libraries(const CudaSettings& settings);
  // Products by a library from here on; weights that are packed later are probed. Before any is.
  void use_library(std::unique_ptr<ProductLibrary> library, bool batch_invariant,
                   const DequantizedProducts& dequantized = {});
  // Attention as the settings say, by `offered` as far as it does in a probe what it should. An
  // error only where it was asked for by name; elsewhere the log says why the own kernels do it.
  Result<void> choose_attention(const CudaSettings& settings,
                                Result<std::unique_ptr<FlashAttention>> offered);
  // For what is planned from here on. No work that uses the last one may be left.
  void use_flash(FlashUse use) { flash_ = std::move(use); }
  FlashUse& flash() { return flash_; }
  Stream& lane(Lane lane) override { return *lanes_[static_cast<std::size_t>(lane)]; }
  // Takes now what lists, images and weights on their way need in most steps: memory that is taken
  // later may wait for all work, and that for other ranks'.
  void hold_uploads();
  // Of what a library does for this thread from here on.
  void select() const { runtime_->select(); }

 private:
  friend class CudaStream;
  friend class CudaTokenCounts;

  std::unique_ptr<PackedWeight> pack_weight(std::span<const StoredMatrix> parts, DType compute);
  std::unique_ptr<PackedWeight> pack_bytes(std::span<const StoredMatrix> parts);
  // For rows of activations that become E4M3 too; null where `parts` have no groups in common.
  std::unique_ptr<PackedWeight> pack_e4m3(std::span<const StoredMatrix> parts);
  // As the checkpoint's own codes; null where they are to become numbers.
  std::unique_ptr<PackedWeight> pack_kept(std::span<const StoredMatrix> parts, DType compute);
  // Makes outputs [begin, end) of a part in host memory, the first of which is row `row` of the
  // weight.
  using CodeFiller = std::function<void(std::size_t part, std::int64_t begin, std::int64_t end,
                                        std::byte* codes, std::int64_t row)>;
  void send_codes(const CodedRows& weight, std::span<const StoredMatrix> parts,
                  const CodeFiller& fill);
  void send(const void* to, std::span<const std::byte> from);
  void send_piece(const std::byte* to, const UploadRing::Piece& piece, std::size_t bytes);
  // Whether products with a weight of codes may be the library's, by numbers made of it.
  bool may_dequantize(const CodedRows& weight) const;
  void learn_wide(const CodedRows& weight);  // probes them
  // Whether all parts are made up: then they are now, in `rows`, which are stacked from them.
  bool make_weight(std::span<const StoredMatrix> parts, const Rows& rows);

  // Arrays of `vocab` counts that no sequence has.
  struct SpareCounts {
    std::int32_t* counts = nullptr;
    std::int64_t vocab = 0;
  };

  std::shared_ptr<Runtime> runtime_;  // buffers and events may outlive the device
  DType activations_;
  ThreadPool pool_;
  std::vector<SpareCounts> spare_counts_;
  std::unique_ptr<ProductTable> products_;  // null: the own kernel multiplies
  std::shared_ptr<BiasCopies> biases_;      // for them; buffers may outlive the device
  DequantizedProducts dequantized_;
  FlashUse flash_;
  std::vector<std::unique_ptr<CudaStream>> lanes_;
};

}  // namespace saccade::cuda
