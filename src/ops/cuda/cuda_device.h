// A GPU as a Device, over runtime.h: what is decided on the host (layouts, plans, lists, arguments)
// is here; kernels.h computes. The same code runs on the GPU and, in tests, on the emulator.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/kernels.h"
#include "ops/cuda/runtime.h"
#include "ops/cuda/upload_ring.h"
#include "ops/device.h"

namespace saccade::cuda {

// Where a view is absent, it is so for the kernel: a place of no rows has an address too.
inline std::byte* data_of(View view) { return view.empty() ? nullptr : view.data(); }
inline Rows rows_of(View view) {
  return {data_of(view), view.dtype(), view.rows(), view.cols(), view.stride()};
}

// Memory that grows to the largest use and stays. What is replaced is freed by the runtime once no
// work is left that may use it.
class DeviceScratch {
 public:
  explicit DeviceScratch(Runtime& runtime) : runtime_(runtime) {}
  ~DeviceScratch();
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  std::byte* reserve(std::size_t bytes);

 private:
  Runtime& runtime_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Rows [out, in] of f32 or bf16, each from a 16-byte boundary on and zero behind its last: what
// the kernels' 16-byte loads take.
class CudaWeight final : public PackedWeight {
 public:
  CudaWeight(std::shared_ptr<Runtime> runtime, std::int64_t out, std::int64_t in, DType type,
             DType operand);
  ~CudaWeight() override;
  std::size_t bytes() const override { return bytes_; }
  DType operand_dtype() const override { return operand_; }
  const Rows& rows() const { return rows_; }

 private:
  std::shared_ptr<Runtime> runtime_;
  DType operand_;
  std::size_t bytes_;
  Rows rows_;
};

// Lists of a step's rows and sequences in the memory of the device, for kv_write and attention.
struct DeviceAttention {
  const AttentionSequence* sequences = nullptr;
  const AttentionTile* tiles = nullptr;
  std::int64_t tile_count = 0;
  const std::int32_t* seen = nullptr;
  const std::int32_t* blocks = nullptr;
  const std::int32_t* slots = nullptr;
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
  void copy(View from, View to) override;
  void download(View from, View to) override;
  Event record() override;
  void wait(const Event& of) override;
  void synchronize() override;

  void gemm(const GemmArgs& args) override;
  void norm(const NormArgs& args) override;
  void rope_table(const RopeTableArgs& args) override;
  void rope(const RopeArgs& args) override;
  void kv_write(const KvWriteArgs& args) override;
  void paged_attention(const PagedAttentionArgs& args) override;
  void segment_attention(const SegmentAttentionArgs& args) override;
  void gated(const GatedArgs& args) override;
  void embed(const EmbedArgs& args) override;
  void mix_rows(const MixRowsArgs& args) override;
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
    runtime_.select();
    return stream_;
  }
  void flush() { lists_.send(); }  // before whatever reads a list
  std::int32_t* counts_of(TokenCounts& counts, std::int64_t vocab);
  SampleKernelRow sample_row(const SampleArgs& args, std::size_t index);

  CudaDevice& device_;
  Runtime& runtime_;
  OwnedStream owned_;
  cudaStream_t stream_;
  UploadRing lists_;     // and plans: until retire()
  UploadRing matrices_;  // until the stream has passed
  DeviceScratch converted_;
  DeviceScratch logits_;  // of rows that sample() adjusts
  std::vector<std::unique_ptr<CudaAttentionPlan>> attention_plans_;
  std::vector<std::unique_ptr<CudaSegmentPlan>> segment_plans_;
};

class CudaDevice final : public Device {
 public:
  // `activations`: kBf16, or kF32 for comparing with other devices.
  CudaDevice(std::unique_ptr<Runtime> runtime, int threads, DType activations);
  ~CudaDevice() override;

  std::string_view name() const override { return "cuda"; }
  std::string description() const override { return "cuda " + runtime_->description(); }
  DType activation_dtype() const override { return activations_; }
  ThreadPool& pool() override { return pool_; }
  Result<Buffer> allocate(std::size_t bytes, Space space) override;
  Space space() const override { return runtime_->space(); }
  std::int64_t free_bytes() const override { return runtime_->free_bytes(); }
  std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts, DType compute) override;
  std::unique_ptr<TokenCounts> count_tokens(std::span<const std::int32_t> prompt) override {
    return std::make_unique<CudaTokenCounts>(*this, prompt);
  }
  Stream& lane(Lane lane) override { return *lanes_[static_cast<std::size_t>(lane)]; }

 private:
  friend class CudaStream;
  friend class CudaTokenCounts;

  // Arrays of `vocab` counts that no sequence has.
  struct SpareCounts {
    std::int32_t* counts = nullptr;
    std::int64_t vocab = 0;
  };

  std::shared_ptr<Runtime> runtime_;  // buffers and events may outlive the device
  DType activations_;
  ThreadPool pool_;
  std::vector<SpareCounts> spare_counts_;
  std::vector<std::unique_ptr<CudaStream>> lanes_;
};

}  // namespace saccade::cuda
