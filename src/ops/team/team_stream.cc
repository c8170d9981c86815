// A lane of a team: each call on every rank's stream.
#include <algorithm>
#include <utility>

#include "ops/operands.h"
#include "ops/team/team_device.h"
#include "ops/team/team_parts.h"

namespace saccade {
namespace {

// Over when every rank's stream has passed it.
class TeamEvent final : public Event::State {
 public:
  TeamEvent(RankTeam& team, std::vector<Event> events) : team_(team), events_(std::move(events)) {}
  ~TeamEvent() override {
    static_cast<void>(team_.try_run([this](int rank) { at(rank) = Event(); }));
  }
  // Each rank asks for itself: a device may get on while it is asked, and wait for the others then.
  bool passed() override {
    std::vector<char> each(events_.size());
    team_.run([&](int rank) { each[static_cast<std::size_t>(rank)] = at(rank).passed() ? 1 : 0; });
    return std::ranges::all_of(each, [](char passed) { return passed != 0; });
  }
  void synchronize() override {
    team_.run([this](int rank) { at(rank).synchronize(); });
  }
  const Event& of(int rank) const { return events_[static_cast<std::size_t>(rank)]; }

 private:
  Event& at(int rank) { return events_[static_cast<std::size_t>(rank)]; }

  RankTeam& team_;
  std::vector<Event> events_;  // [ranks]
};

// An operand of the team becomes a rank's own.
class RankOperand {
 public:
  RankOperand(const TeamStream& stream, int rank) : stream_(stream), rank_(rank) {}

  void operator()(View& view) const { view = stream_.of(rank_, view); }
  template <typename T>
  void operator()(DeviceArray<T>& list) const {
    list = stream_.of(rank_, list);
  }
  void operator()(const PackedWeight*& weight) const {
    if (weight != nullptr) weight = &static_cast<const TeamWeight*>(weight)->of(rank_);
  }
  void operator()(const AttentionPlan*& plan) const {
    plan = static_cast<const TeamAttentionPlan*>(plan)->of_ranks[static_cast<std::size_t>(rank_)];
  }
  void operator()(const SegmentPlan*& plan) const {
    plan = static_cast<const TeamSegmentPlan*>(plan)->of_ranks[static_cast<std::size_t>(rank_)];
  }
  void operator()(std::span<const ExpertWeights>& experts) {
    experts_.assign(experts.begin(), experts.end());
    for (ExpertWeights& expert : experts_) {
      (*this)(expert.gate_up);
      (*this)(expert.down);
    }
    experts = experts_;
  }
  void operator()(std::span<const SamplingRow>& rows) {
    rows_.assign(rows.begin(), rows.end());
    for (SamplingRow& row : rows_) {
      if (row.counts == nullptr) continue;
      const auto& of_ranks = static_cast<const TeamCounts*>(row.counts)->of_ranks;
      row.counts = of_ranks[static_cast<std::size_t>(rank_)].get();
    }
    rows = rows_;
  }

 private:
  const TeamStream& stream_;
  int rank_;
  std::vector<ExpertWeights> experts_;
  std::vector<SamplingRow> rows_;
};

}  // namespace

Device& TeamStream::device() { return device_; }

Space TeamStream::space() const { return device_.space(); }

Stream& TeamStream::rank(int rank) const { return device_.rank(rank).lane(lane_); }

std::byte* TeamStream::place(int rank, const std::byte* address, Space space) const {
  std::byte* own = lists_.of(rank, address);
  if (own == nullptr) own = device_.places_.of(rank, address);
  CHECK(own != nullptr || space == Space::kHost, "an operand is in no memory of the team");
  return own != nullptr ? own : const_cast<std::byte*>(address);
}

View TeamStream::of(int rank, View view) const {
  if (view.empty()) return view;
  return View(place(rank, view.data(), view.space()), view.dtype(), view.rows(), view.cols(),
              view.stride(), view.space());
}

template <typename Args>
void TeamStream::each(void (Stream::*op)(const Args&), const Args& args) {
  device_.team().run([&](int rank) {
    RankOperand own(*this, rank);
    Args of_rank = args;
    each_operand(of_rank, own);
    (this->rank(rank).*op)(of_rank);
  });
}

// The ranks' upload() is public, and of bytes it is a list of them.
const std::byte* TeamStream::upload_bytes(std::span<const std::byte> bytes) {
  std::vector<const std::byte*> at(static_cast<std::size_t>(device_.team().size()));
  device_.team().run([&](int rank) {
    at[static_cast<std::size_t>(rank)] = this->rank(rank).upload(bytes).data();
  });
  const std::byte* const first = at.front();
  lists_.add(std::move(at), bytes.size());
  return first;
}

const AttentionPlan& TeamStream::plan_attention(std::span<const SequenceSpan> spans,
                                                const AttentionGeometry& geometry) {
  auto plan = std::make_unique<TeamAttentionPlan>(spans, geometry);
  plan->of_ranks.resize(static_cast<std::size_t>(device_.team().size()));
  device_.team().run([&](int rank) {
    plan->of_ranks[static_cast<std::size_t>(rank)] =
        &this->rank(rank).plan_attention(spans, geometry);
  });
  return *attention_plans_.emplace_back(std::move(plan));
}

const SegmentPlan& TeamStream::plan_segments(std::span<const std::int32_t> begins,
                                             const SegmentGeometry& geometry) {
  auto plan = std::make_unique<TeamSegmentPlan>(begins, geometry);
  plan->of_ranks.resize(static_cast<std::size_t>(device_.team().size()));
  device_.team().run([&](int rank) {
    plan->of_ranks[static_cast<std::size_t>(rank)] =
        &this->rank(rank).plan_segments(begins, geometry);
  });
  return *segment_plans_.emplace_back(std::move(plan));
}

void TeamStream::retire() {
  device_.team().run([&](int rank) { this->rank(rank).retire(); });
  lists_.clear();
  attention_plans_.clear();
  segment_plans_.clear();
}

void TeamStream::upload(View from, View to) {
  device_.team().run([&](int rank) { this->rank(rank).upload(from, of(rank, to)); });
}

void TeamStream::fill(const StoredMatrix& from, View to) {
  device_.team().run([&](int rank) { this->rank(rank).fill(from, of(rank, to)); });
}

void TeamStream::copy(View from, View to) {
  device_.team().run([&](int rank) { this->rank(rank).copy(of(rank, from), of(rank, to)); });
}

// On the first rank's thread, which this one is.
void TeamStream::download(View from, View to) { rank(0).download(from, to); }

Event TeamStream::record() {
  std::vector<Event> events(static_cast<std::size_t>(device_.team().size()));
  device_.team().run(
      [&](int rank) { events[static_cast<std::size_t>(rank)] = this->rank(rank).record(); });
  if (std::ranges::all_of(events, [](const Event& of) { return of.state() == nullptr; })) return {};
  return Event(std::make_shared<TeamEvent>(device_.team(), std::move(events)));
}

void TeamStream::wait(const Event& of) {
  const auto* const event = dynamic_cast<const TeamEvent*>(of.state().get());
  if (event == nullptr) return of.synchronize();
  device_.team().run([&](int rank) { this->rank(rank).wait(event->of(rank)); });
}

void TeamStream::synchronize() {
  device_.team().run([&](int rank) { this->rank(rank).synchronize(); });
}

// --- ops ---

void TeamStream::gemm(const GemmArgs& args) { each(&Stream::gemm, args); }
void TeamStream::norm(const NormArgs& args) { each(&Stream::norm, args); }
void TeamStream::rope_table(const RopeTableArgs& args) { each(&Stream::rope_table, args); }
void TeamStream::rope(const RopeArgs& args) { each(&Stream::rope, args); }
void TeamStream::kv_write(const KvWriteArgs& args) { each(&Stream::kv_write, args); }
void TeamStream::qkv(const QkvArgs& args) { each(&Stream::qkv, args); }
void TeamStream::paged_attention(const PagedAttentionArgs& args) {
  each(&Stream::paged_attention, args);
}
void TeamStream::segment_attention(const SegmentAttentionArgs& args) {
  each(&Stream::segment_attention, args);
}
void TeamStream::gated(const GatedArgs& args) { each(&Stream::gated, args); }
void TeamStream::mlp(const MlpArgs& args) { each(&Stream::mlp, args); }
void TeamStream::normed_gemm(const NormedGemmArgs& args) { each(&Stream::normed_gemm, args); }
void TeamStream::normed_mlp(const NormedMlpArgs& args) { each(&Stream::normed_mlp, args); }
void TeamStream::experts(const ExpertsArgs& args) { each(&Stream::experts, args); }
void TeamStream::causal_conv(const CausalConvArgs& args) { each(&Stream::causal_conv, args); }
void TeamStream::delta_rule(const DeltaRuleArgs& args) { each(&Stream::delta_rule, args); }
void TeamStream::embed(const EmbedArgs& args) { each(&Stream::embed, args); }
void TeamStream::mix_rows(const MixRowsArgs& args) { each(&Stream::mix_rows, args); }
void TeamStream::cut_patches(const CutPatchesArgs& args) { each(&Stream::cut_patches, args); }
void TeamStream::copy_rows(const CopyRowsArgs& args) { each(&Stream::copy_rows, args); }
void TeamStream::sample(const SampleArgs& args) { each(&Stream::sample, args); }

void TeamStream::add(View x, View y, float scale) {
  device_.team().run([&](int rank) { this->rank(rank).add(of(rank, x), of(rank, y), scale); });
}

void TeamStream::softcap(View x, float cap) {
  device_.team().run([&](int rank) { this->rank(rank).softcap(of(rank, x), cap); });
}

void TeamStream::row_stats(View logits, View stats) {
  device_.team().run(
      [&](int rank) { this->rank(rank).row_stats(of(rank, logits), of(rank, stats)); });
}

}  // namespace saccade
