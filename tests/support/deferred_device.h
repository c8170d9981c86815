// A device that punishes what only a GPU would: work runs late (when an event or a stream is waited
// for, lanes in a random legal order), its addresses are no memory of the host's, and lists and
// plans are dead after retire(). What another device computes runs underneath.
//
// It CHECKs, where the work is submitted: that every operand is on the device, in memory that is
// allocated, and every list and plan alive; and where it runs, that the memory has not been freed.
// Downloads are NaN until they have happened.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "ops/forwarding_device.h"

namespace saccade {

class DeferredDevice;

class DeferredStream final : public Stream {
 public:
  DeferredStream(DeferredDevice& device, Stream& inner);
  ~DeferredStream() override;

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
  void mlp(const MlpArgs& args) override;
  void experts(const ExpertsArgs& args) override;
  void causal_conv(const CausalConvArgs& args) override;
  void delta_rule(const DeltaRuleArgs& args) override;
  void cut_patches(const CutPatchesArgs& args) override;
  void embed(const EmbedArgs& args) override;
  void mix_rows(const MixRowsArgs& args) override;
  void copy_rows(const CopyRowsArgs& args) override;
  void add(View x, View y, float scale) override;
  void softcap(View x, float cap) override;
  void row_stats(View logits, View stats) override;
  void sample(const SampleArgs& args) override;

  // A kernel of a test: `work` runs when the lane comes to it.
  void launch(std::function<void()> work) { queue_.push_back({{}, std::move(work)}); }
  // What such a kernel reads and writes: CHECKed, and where its work finds it.
  View use(View view);
  template <typename T>
  DeviceArray<T> use(DeviceArray<T> list);

 protected:
  const std::byte* upload_bytes(std::span<const std::byte> bytes) override;
  Space space() const override { return Space::kDevice; }

 private:
  friend class DeferredDevice;
  friend class DeferredEvent;
  struct Item {
    Event after;                 // runs once this has been passed
    std::function<void()> work;  // may be empty
  };
  struct List {
    std::size_t bytes = 0;
    bool alive = true;
  };
  struct Plan;
  struct Segments;

  // The plan of the stream underneath; called when the work runs.
  const AttentionPlan* inner_plan(const Plan& plan);
  const Plan& live(const AttentionPlan* plan) const;
  const Segments& live(const SegmentPlan* plan) const;
  bool runnable() const;
  void run_next();
  // `work` after all that `views` of this op have been checked again.
  void submit(std::vector<View> views, std::function<void()> work);

  DeferredDevice& device_;
  Stream& inner_;
  std::deque<Item> queue_;
  std::uint64_t submitted_ = 0;  // of record()s and what they wait for: items ever queued
  std::uint64_t done_ = 0;       // items ever run
  std::map<const std::byte*, List> lists_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<std::unique_ptr<Segments>> segments_;
};

class DeferredDevice final : public ForwardingDevice {
 public:
  DeferredDevice(std::unique_ptr<Device> inner, std::uint64_t seed);
  ~DeferredDevice() override;

  std::string_view name() const override { return "deferred"; }
  std::string description() const override { return "deferred " + inner_->description(); }
  Result<Buffer> allocate(std::size_t bytes, Space space) override;
  Space space() const override { return Space::kDevice; }
  Stream& lane(Lane lane) override { return *lanes_[static_cast<std::size_t>(lane)]; }

 private:
  friend class DeferredStream;
  friend class DeferredEvent;

  std::byte* take(std::size_t bytes);  // an address of the device's; page-aligned
  // What work finds at `address`, which is the device's.
  std::byte* memory_of(const std::byte* address) const { return memory_ + (address - addresses_); }
  void check_alive(View view) const;
  void check_pinned(View view) const;
  // Runs items of any lane, a random runnable one at a time, until `lane` has done `count`.
  void run_until(const DeferredStream& lane, std::uint64_t count);
  void run_one();

  std::unique_ptr<Device> inner_;
  Rng rng_;
  std::byte* addresses_ = nullptr;  // of the device: who touches one falls
  std::byte* memory_ = nullptr;     // what is behind them, byte for byte
  std::size_t used_ = 0;
  std::map<const std::byte*, std::size_t> allocations_;  // alive
  std::map<const std::byte*, std::size_t> pinned_;       // alive, on the host
  std::vector<std::unique_ptr<DeferredStream>> lanes_;
};

// Threads of a CPU device in tests that compute little: one, since other tests run beside them and
// a pool's workers wait awake; two where sanitizers watch them.
constexpr int kDeviceThreads =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    2;
#else
    1;
#endif

// `inner`: "reference" or an instruction set of the CPU ("": the best). Null when this machine
// lacks it.
std::unique_ptr<Device> make_deferred_device(const std::string& inner, std::uint64_t seed = 1);

// What tests of engines run on: `inner` as it is, or deferred where the environment's
// SACCADE_TEST_DEVICE is "deferred" (a second run of the same program).
std::unique_ptr<Device> engine_device(const std::string& inner);

}  // namespace saccade
