// Several devices as one, a rank each: who calls sees one memory and one order of work.
//
// Memory is allocated on every device, at addresses of its own; the buffer that is handed out is
// the first rank's. Every call on a stream is made on every rank's stream at once, each with what
// its device has in the place of the first one's: buffers, lists, plans, weights and counts. So all
// ranks do the same to their own memory, and hold the same bits, but for what a network of several
// ranks keeps there as its share. Anything else an argument refers to is the caller's memory, and
// is passed as it is: on devices of the host an operand that an op writes to must be in a buffer.
//
// A download is of the first rank's. Calls throw RanksFailed once a rank has failed; an event says
// so to whoever waits for it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ops/device.h"
#include "ops/team/rank_team.h"
#include "ops/team/team_places.h"

namespace saccade {

class TeamDevice;

class TeamStream final : public Stream {
 public:
  TeamStream(TeamDevice& device, Lane lane) : device_(device), lane_(lane) {}

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

  // For what runs on a rank's own device (a rank's network): its stream, and what it has in the
  // place of a view of a buffer, or of a list that this stream has uploaded. From any rank's thread
  // within RankTeam::run().
  Stream& rank(int rank) const;
  View of(int rank, View view) const;
  template <typename T>
  DeviceArray<T> of(int rank, DeviceArray<T> list) const {
    if (list.empty()) return list;
    const auto* const data = reinterpret_cast<const std::byte*>(list.data());
    return DeviceArray<T>(reinterpret_cast<const T*>(place(rank, data, list.space())), list.size(),
                          list.space());
  }

 protected:
  const std::byte* upload_bytes(std::span<const std::byte> bytes) override;
  Space space() const override;

 private:
  // The op on every rank, with operands of its own.
  template <typename Args>
  void each(void (Stream::*op)(const Args&), const Args& args);
  std::byte* place(int rank, const std::byte* address, Space space) const;

  TeamDevice& device_;
  Lane lane_;
  TeamPlaces lists_;  // until retire()
  std::vector<std::unique_ptr<AttentionPlan>> attention_plans_;
  std::vector<std::unique_ptr<SegmentPlan>> segment_plans_;
};

class TeamDevice final : public Device {
 public:
  // devices: rank r's, of one kind, is element r, and collectives' likewise. Buffers, weights,
  // counts and events do not outlive this. patience: as RankTeam's, of each call.
  TeamDevice(std::vector<std::unique_ptr<Device>> devices,
             std::vector<std::unique_ptr<Collective>> collectives,
             std::chrono::milliseconds patience = {});
  ~TeamDevice() override;

  RankTeam& team() { return team_; }
  Device& rank(int rank) const { return *devices_[static_cast<std::size_t>(rank)]; }
  // Waits for all work of all ranks, whatever has become of it.
  void settle();

  std::string_view name() const override { return first().name(); }
  std::string description() const override;
  DType activation_dtype() const override { return first().activation_dtype(); }
  ThreadPool& pool() override { return first().pool(); }
  Result<Buffer> allocate(std::size_t bytes, Space space) override;
  Space space() const override { return first().space(); }
  // Of the rank that has the least; where all share the host's memory, a rank's share of it.
  std::int64_t free_bytes() const override;
  std::int64_t total_bytes() const override;
  std::unique_ptr<PackedWeight> pack(std::span<const StoredMatrix> parts, DType compute) override;
  bool multiplies_int8() const override { return first().multiplies_int8(); }
  bool multiplies_w4a8() const override { return first().multiplies_w4a8(); }
  bool multiplies_e4m3() const override { return first().multiplies_e4m3(); }
  bool caches(DType cache) const override { return first().caches(cache); }
  bool has_experts() const override { return first().has_experts(); }
  bool has_recurrence() const override { return first().has_recurrence(); }
  bool cuts_patches() const override { return first().cuts_patches(); }
  std::unique_ptr<TokenCounts> count_tokens(std::span<const std::int32_t> prompt) override;
  Stream& lane(Lane lane) override { return *lanes_[static_cast<std::size_t>(lane)]; }

 private:
  friend class TeamStream;

  Device& first() const { return *devices_.front(); }
  Result<Buffer> allocate_for_downloads(std::size_t bytes);

  std::vector<std::unique_ptr<Device>> devices_;
  RankTeam team_;      // whose sums are of the devices: it ends first
  TeamPlaces places_;  // of buffers
  std::vector<std::unique_ptr<TeamStream>> lanes_;
};

}  // namespace saccade
