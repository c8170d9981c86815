#include "tests/support/staged_team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/forwarding_device.h"
#include "ops/operands.h"
#include "ops/team/team_device.h"

namespace saccade {
namespace {

// Host memory from the first byte that some operands show to one past their last.
struct Region {
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  Buffer buffer = {};

  std::size_t offset() const { return reinterpret_cast<std::uintptr_t>(begin) % 64; }
  std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  View staged() const {
    const auto size = static_cast<std::int64_t>(bytes());
    return View(buffer.data() + offset(), DType::kU8, 1, size, size, buffer.space());
  }
};

class StagedStream final : public Stream {
 public:
  StagedStream(Device& device, TeamDevice& team, TeamStream& stream)
      : device_(device), team_(team), stream_(stream) {}

  using Stream::upload;
  Device& device() override { return device_; }
  const AttentionPlan& plan_attention(std::span<const SequenceSpan> spans,
                                      const AttentionGeometry& geometry) override {
    return stream_.plan_attention(spans, geometry);
  }
  const SegmentPlan& plan_segments(std::span<const std::int32_t> begins,
                                   const SegmentGeometry& geometry) override {
    return stream_.plan_segments(begins, geometry);
  }
  void retire() override { stream_.retire(); }
  void upload(View from, View to) override {
    staged({&to}, [&] { stream_.upload(from, to); });
  }
  void fill(const StoredMatrix& from, View to) override {
    staged({&to}, [&] { stream_.fill(from, to); });
  }
  void copy(View from, View to) override {
    staged({&from, &to}, [&] { stream_.copy(from, to); });
  }
  void download(View from, View to) override {
    staged({&from}, [&] { stream_.download(from, to); });
  }
  Event record() override { return stream_.record(); }
  void wait(const Event& of) override { stream_.wait(of); }
  void synchronize() override { stream_.synchronize(); }

  void gemm(const GemmArgs& args) override { each(&Stream::gemm, args); }
  void norm(const NormArgs& args) override { each(&Stream::norm, args); }
  void rope_table(const RopeTableArgs& args) override { each(&Stream::rope_table, args); }
  void rope(const RopeArgs& args) override { each(&Stream::rope, args); }
  void kv_write(const KvWriteArgs& args) override { each(&Stream::kv_write, args); }
  void qkv(const QkvArgs& args) override { each(&Stream::qkv, args); }
  void paged_attention(const PagedAttentionArgs& args) override {
    each(&Stream::paged_attention, args);
  }
  void segment_attention(const SegmentAttentionArgs& args) override {
    each(&Stream::segment_attention, args);
  }
  void gated(const GatedArgs& args) override { each(&Stream::gated, args); }
  void mlp(const MlpArgs& args) override { each(&Stream::mlp, args); }
  void normed_gemm(const NormedGemmArgs& args) override { each(&Stream::normed_gemm, args); }
  void normed_mlp(const NormedMlpArgs& args) override { each(&Stream::normed_mlp, args); }
  void experts(const ExpertsArgs& args) override { each(&Stream::experts, args); }
  void causal_conv(const CausalConvArgs& args) override { each(&Stream::causal_conv, args); }
  void delta_rule(const DeltaRuleArgs& args) override { each(&Stream::delta_rule, args); }
  void embed(const EmbedArgs& args) override { each(&Stream::embed, args); }
  void mix_rows(const MixRowsArgs& args) override { each(&Stream::mix_rows, args); }
  void cut_patches(const CutPatchesArgs& args) override { each(&Stream::cut_patches, args); }
  void copy_rows(const CopyRowsArgs& args) override { each(&Stream::copy_rows, args); }
  void sample(const SampleArgs& args) override { each(&Stream::sample, args); }
  void add(View x, View y, float scale) override {
    staged({&x, &y}, [&] { stream_.add(x, y, scale); });
  }
  void softcap(View x, float cap) override {
    staged({&x}, [&] { stream_.softcap(x, cap); });
  }
  void row_stats(View logits, View stats) override {
    staged({&logits, &stats}, [&] { stream_.row_stats(logits, stats); });
  }

 protected:
  const std::byte* upload_bytes(std::span<const std::byte> bytes) override {
    return stream_.upload(bytes).data();
  }
  Space space() const override { return Space::kHost; }

 private:
  struct Collect {
    std::vector<View*>& views;
    void operator()(View& view) const { views.push_back(&view); }
    template <typename T>
    void operator()(T&) const {}  // what the team has made
  };

  template <typename Args>
  void each(void (Stream::*op)(const Args&), const Args& args) {
    Args own = args;
    std::vector<View*> views;
    each_operand(own, Collect{views});
    staged(std::move(views), [&] { (stream_.*op)(own); });
  }

  // Work on `views`, which are the team's while it runs.
  template <typename Work>
  void staged(std::vector<View*> views, const Work& work) {
    std::erase_if(views, [](const View* view) { return view->empty(); });
    std::vector<Region> regions = regions_of(views);
    for (Region& region : regions) {
      region.buffer = *team_.allocate(region.offset() + region.bytes(), Space::kDevice);
      for (int rank = 0; rank < team_.team().size(); ++rank)
        std::memcpy(stream_.of(rank, region.staged()).data(), region.begin, region.bytes());
    }
    for (View* const view : views) {
      const auto region = std::ranges::find_if(regions, [&](const Region& each) {
        return each.begin <= view->data() && view->data() < each.end;
      });
      *view = View(region->staged().data() + (view->data() - region->begin), view->dtype(),
                   view->rows(), view->cols(), view->stride(), region->staged().space());
    }
    work();
    stream_.synchronize();
    for (const Region& region : regions) bring_back(region);
  }

  static std::vector<Region> regions_of(const std::vector<View*>& views) {
    std::vector<Region> regions;
    for (const View* const view : views)
      regions.push_back(
          {view->data(), view->data() +
                             static_cast<std::size_t>(view->rows() - 1) * view->row_bytes() +
                             static_cast<std::size_t>(view->cols()) * size_of(view->dtype())});
    std::ranges::sort(regions, {}, &Region::begin);
    std::vector<Region> apart;
    for (Region& region : regions) {
      if (!apart.empty() && region.begin < apart.back().end)
        apart.back().end = std::max(apart.back().end, region.end);
      else
        apart.push_back(std::move(region));
    }
    return apart;
  }

  void bring_back(const Region& region) const {
    const std::byte* const first = stream_.of(0, region.staged()).data();
    for (int rank = 1; rank < team_.team().size(); ++rank) {
      const std::byte* const own = stream_.of(rank, region.staged()).data();
      EXPECT_NE(own, first);
      EXPECT_EQ(std::memcmp(own, first, region.bytes()), 0) << "rank " << rank << " has other bits";
    }
    // What no op wrote to may be in memory that nobody may write to.
    if (std::memcmp(region.begin, first, region.bytes()) != 0)
      std::memcpy(region.begin, first, region.bytes());
  }

  Device& device_;
  TeamDevice& team_;
  TeamStream& stream_;
};

class StagedTeam final : public ForwardingDevice {
 public:
  explicit StagedTeam(std::unique_ptr<TeamDevice> team)
      : ForwardingDevice(*team), team_(std::move(team)) {
    for (std::size_t i = 0; i < kLanes; ++i)
      lanes_.push_back(std::make_unique<StagedStream>(
          *this, *team_, static_cast<TeamStream&>(team_->lane(static_cast<Lane>(i)))));
  }

  // The tests' own, as all that they give to ops.
  Result<Buffer> allocate(std::size_t bytes, Space) override { return allocate_host(bytes); }
  Space space() const override { return Space::kHost; }
  Stream& lane(Lane lane) override { return *lanes_[static_cast<std::size_t>(lane)]; }

 private:
  std::unique_ptr<TeamDevice> team_;
  std::vector<std::unique_ptr<StagedStream>> lanes_;
};

}  // namespace

std::unique_ptr<Device> make_staged_team(int ranks, int threads, const std::string& isa) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    auto device = make_cpu_device(threads, isa);
    CHECK(device.has_value(), "{}", device.error().message);
    devices.push_back(*std::move(device));
  }
  return std::make_unique<StagedTeam>(
      std::make_unique<TeamDevice>(std::move(devices), make_thread_collectives(ranks)));
}

}  // namespace saccade
