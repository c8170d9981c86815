#include "engine/admission/scheduler.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace saccade {
namespace {

// Sequences before the scheduler whose images are looked after in one step.
constexpr std::size_t kImageLookahead = 64;
// Those that are looked through for one that could go on now.
constexpr std::size_t kLookahead = 16;
// Text before an image that a newcomer starts on while the image is still being encoded. With less
// it waits, and holds no pages meanwhile.
constexpr std::int64_t kWorthStarting = 256;

}  // namespace

Scheduler::Scheduler(const EngineSettings& settings, KvAllocator& kv, ImagePlanner& images)
    : settings_(settings),
      kv_(kv),
      images_(images),
      queue_(settings.max_sequences, settings.fair()) {}

void Scheduler::add(Sequence& sequence) {
  if (settings_.scheduling_policy == SchedulingPolicy::kPriority) {
    sequence.standing.edit().rank = sequence.request.priority * settings_.priority_aging + steps_;
  }
  images_.add(sequence);
  queue_.add(sequence);
}

StepPlan Scheduler::plan(const StepLimits& limits) {
  ++steps_;
  waiting_for_images_ = 0;
  StepPlan plan;
  plan.rows.reserve(running_.size());
  Budget budget{settings_.max_batched_tokens, limits.prefill_tokens};
  rebalance(plan);
  rebalance_pages(plan);
  const std::size_t gave_way = plan.preempted.size();
  want_images(plan);
  budget.kept = kept_for_short_ones(budget);
  plan_running(budget, plan);
  if (plan.preempted.size() == gave_way) {
    plan_waiting(budget, plan);
  } else {
    plan.blocked_on_memory = true;
  }
  if (plan.preempted.empty()) plan_drafts(budget, plan);
  return plan;
}

// --- clients ---

// Where all places are taken, each client that waits gets as many as are its share from those that
// have more than theirs. Who gives way is computed again later and loses no token.
void Scheduler::rebalance(StepPlan& plan) {
  const bool full = static_cast<std::int64_t>(running_.size()) >= settings_.max_sequences;
  if (!full || queue_.active() < 2 || queue_.waiting() == 0) return;
  std::unordered_map<ClientId, std::int64_t> given;
  for (Sequence* sequence : queue_.first(static_cast<std::size_t>(settings_.max_sequences))) {
    const ClientId client = sequence->request.client;
    if (queue_.running_of(client) + given[client] >= queue_.share()) continue;
    // Room that it could not use yet would be lost.
    if (sequence->progress->unknown > 0 || !has_lora_place(*sequence)) continue;
    const std::int64_t hit = std::max<std::int64_t>(0, sequence->standing->expected_hit);
    if (images_.first_unready(*sequence, hit) != nullptr) continue;
    if (!give_way(plan)) return;
    ++given[client];
  }
}

// The last that runs of those whose clients have more than their share.
bool Scheduler::give_way(StepPlan& plan) {
  const auto last = std::find_if(running_.rbegin(), running_.rend(), [this](Sequence* sequence) {
    return queue_.running_of(sequence->request.client) > queue_.share();
  });
  if (last == running_.rend()) return false;
  preempt(**last, plan);
  return true;
}

// Tokens in the pages of each client that runs, and an equal part of all of them.
Scheduler::Held Scheduler::held() const {
  Held held;
  std::int64_t all = 0;
  for (const Sequence* sequence : running_) {
    held.tokens[sequence->request.client] += sequence->computed();
    all += sequence->computed();
  }
  held.share = all / std::max<std::int64_t>(1, queue_.active());
  return held;
}

// Where it is pages that are lacking: who is next and would stay within its share gets them from
// those that hold more than theirs.
void Scheduler::rebalance_pages(StepPlan& plan) {
  if (queue_.active() < 2 || queue_.waiting() == 0) return;
  const std::vector<Sequence*> waiting = queue_.first(kLookahead);
  const auto next = std::ranges::find_if(waiting, [this](const Sequence* sequence) {
    return sequence->standing->refused_at == kv_.releases() + 1;
  });
  if (next == waiting.end()) return;
  Held held = this->held();
  std::int64_t lacking = (*next)->length();
  if (held.tokens[(*next)->request.client] + lacking > held.share) return;
  while (lacking > 0) {
    const auto last = std::find_if(running_.rbegin(), running_.rend(), [&](Sequence* sequence) {
      return held.tokens[sequence->request.client] > held.share;
    });
    if (last == running_.rend()) return;
    Sequence& sequence = **last;
    lacking -= sequence.computed();
    held.tokens[sequence.request.client] -= sequence.computed();
    preempt(sequence, plan);
  }
}

// --- images ---

void Scheduler::want_images(StepPlan& plan) {
  if (images_.mode() == EncoderCache::kOverlay) return;  // needs pages: see want_overlays
  for (Sequence* sequence : running_) {
    if (!sequence->images->empty()) images_.want(*sequence, sequence->computed(), plan.encodes);
  }
  for (Sequence* sequence : queue_.first(kImageLookahead)) {
    if (sequence->images->empty() || sequence->progress->unknown > 0) continue;
    // What a prefix hit covers need not be encoded.
    std::int64_t& hit = sequence->standing.edit().expected_hit;
    if (hit < 0) hit = match(*sequence).tokens;
    images_.skip(*sequence, hit);
    images_.want(*sequence, hit, plan.encodes);
  }
}

// Rows of an image go into the pages of its own tokens, which therefore come first.
void Scheduler::want_overlays(Sequence& sequence, StepPlan& plan) {
  bool first = true;
  for (int i = 0; i < static_cast<int>(sequence.images->size()); ++i) {
    const SequenceImage& image = (*sequence.images)[static_cast<std::size_t>(i)];
    if (image.end <= sequence.computed() || image.overlaid != ImageState::kAbsent) continue;
    const std::int64_t computed = sequence.computed();
    const bool room = first ? make_room(sequence, computed, image.end, plan)
                            : kv_.extend(sequence.kv, computed, image.end);
    if (!room) return;
    // A block that begins as a copy is copied before rows are laid into it.
    kv_.take_copies(sequence.kv, plan.copies);
    images_.want_overlaid(sequence, i, plan.encodes);
    first = false;
  }
}

// --- rows ---

// A quarter of the step, where somebody waits whose prompt is no longer than that and who can
// begin: behind a long prompt it would wait for all of it, as one behind a large picture does.
std::int64_t Scheduler::kept_for_short_ones(const Budget& budget) {
  const std::int64_t quarter = budget.room() / 4;
  const bool full = static_cast<std::int64_t>(running_.size()) >= settings_.max_sequences;
  if (quarter == 0 || full || queue_.waiting() == 0) return 0;
  FairQueue::Turns turns(queue_);
  Sequence* held_up = nullptr;
  for (std::size_t seen = 0; seen < kLookahead; ++seen) {
    Sequence* const next = turns.next();
    if (next == nullptr) return 0;
    const std::int64_t begin = std::max<std::int64_t>(0, next->standing->expected_hit);
    if (waits_for_lora_place(*next, held_up) || next->progress->unknown > 0 ||
        next->length() - begin > quarter || images_.first_unready(*next, begin) != nullptr)
      continue;
    // Whom there are no pages for nobody overtakes.
    return next->standing->refused_at == kv_.releases() + 1 ? 0 : quarter;
  }
  return 0;
}

void Scheduler::plan_running(Budget& budget, StepPlan& plan) {
  // Preemption takes out the current sequence or later ones, never those that have their rows.
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    kv_.free_skipped(sequence.kv);
    if (images_.mode() == EncoderCache::kOverlay && !sequence.images->empty()) {
      want_overlays(sequence, plan);
    }
    if (!sequence.kv.admitted()) {  // it had to give way itself: another stands here now
      --i;
      continue;
    }
    if (sequence.length() >= sequence.max_length)
      continue;  // it ends when the last step is settled
    // What may come next depends on the token that is being sampled, or what its draft is.
    const bool waits = sequence.request.sampling.looks_back() || !sequence.draft->tokens.empty() ||
                       sequence.draft->awaited;
    if (sequence.progress->unknown > 0 && waits) continue;
    const std::int64_t begin = sequence.computed();
    const std::int64_t count = chunk_of(sequence, begin, budget, plan);
    if (count == 0) continue;
    if (make_room(sequence, begin + count, 0, plan)) {
      push_rows(sequence, count, budget, plan);
    } else {
      --i;
    }
  }
}

// Tokens that the sequence may compute from `begin` on; 0 where it has to wait.
std::int64_t Scheduler::chunk_of(const Sequence& sequence, std::int64_t begin, const Budget& budget,
                                 StepPlan& plan) const {
  const std::int64_t pending = sequence.length() - begin;
  std::int64_t count = std::min(pending, budget.tokens);
  if (pending > 1) {
    count = std::min(count, budget.prefill);
    if (count < pending) count = std::clamp<std::int64_t>(budget.room() - budget.kept, 0, count);
    if (settings_.long_prefill_threshold > 0) {
      count = std::min(count, settings_.long_prefill_threshold);
    }
  }
  // Tokens that see each other both ways are computed together or not at all.
  const Prompt& prompt = *sequence.request.prompt;
  const std::int64_t whole = least_step_end(prompt, begin) - begin;
  if (whole > count) count = budget.prefill > 0 && whole <= budget.tokens ? whole : 0;
  if (count < pending) plan.blocked_on_budget = true;
  if (count == 0) return 0;
  std::int64_t end = kv_.chunk_end(begin, begin + count);
  end = last_step_end(prompt, begin, images_.ready_end(sequence, begin, end));
  return end - begin >= whole ? end - begin : 0;
}

bool Scheduler::make_room(Sequence& sequence, std::int64_t end, std::int64_t reserve,
                          StepPlan& plan) {
  while (!kv_.extend(sequence.kv, end, reserve)) {
    Sequence& victim = to_preempt(sequence);
    preempt(victim, plan);
    if (&victim == &sequence) return false;
  }
  return true;
}

// The last that runs; of several clients, the last of those that hold more than their share. From
// `wants` on: those before it have their rows.
Sequence& Scheduler::to_preempt(const Sequence& wants) {
  if (queue_.active() < 2) return *running_.back();
  Held held = this->held();
  for (auto at = running_.rbegin(); at != running_.rend(); ++at) {
    if (held.tokens[(*at)->request.client] > held.share) return **at;
    if (*at == &wants) break;
  }
  return *running_.back();
}

// From the running to the waiting: its pages go, its tokens stay.
void Scheduler::send_back(Sequence& sequence) {
  const auto found = std::lower_bound(running_.begin(), running_.end(), &sequence, ByRank());
  CHECK(found != running_.end() && *found == &sequence, "request {} does not run",
        sequence.request.id);
  running_.erase(found);
  kv_.release(sequence.kv);
  images_.drop(sequence);
  sequence.standing.edit().expected_hit = -1;
  queue_.send_back(sequence);
}

void Scheduler::preempt(Sequence& sequence, StepPlan& plan) {
  send_back(sequence);
  ++sequence.standing.edit().preemptions;
  plan.preempted.push_back(&sequence);
}

void Scheduler::push_rows(Sequence& sequence, std::int64_t count, Budget& budget, StepPlan& plan) {
  const std::int64_t begin = sequence.computed();
  const bool samples = begin + count == sequence.length();
  // Recomputed tokens are not charged.
  queue_.charge(sequence, std::max<std::int64_t>(
                              0, begin + count - std::max(begin, sequence.progress->reached)));
  plan.rows.push_back({&sequence, begin, count, samples});
  kv_.take_copies(sequence.kv, plan.copies);
  budget.tokens -= count;
  if (sequence.pending() > 1) {
    budget.prefill = std::max<std::int64_t>(0, budget.prefill - count);
  } else {
    ++plan.decode_rows;
  }
  plan.tokens += count;
  plan.context_tokens += begin;
}

// --- drafts ---

// How many draft tokens may be computed behind the last known one: none that would be past the
// end, and none by other angles than a sequence of their length has.
std::int64_t Scheduler::max_drafted(const Sequence& sequence) const {
  auto most = std::min(static_cast<std::int64_t>(sequence.draft->tokens.size()),
                       sequence.max_length - sequence.length() - 1);
  if (sequence.short_length > 0 && !sequence.is_long())
    most = std::min(most, sequence.short_length - sequence.length());
  return most;
}

void Scheduler::plan_drafts(Budget& budget, StepPlan& plan) {
  std::int64_t room = std::min(budget.tokens, settings_.draft_rows());
  for (PlannedRows& rows : plan.rows) {
    Sequence& sequence = *rows.sequence;
    if (!rows.samples || rows.count != 1 || rows.begin + 1 != sequence.known()) continue;
    std::int64_t drafts = std::min(room, max_drafted(sequence));
    while (drafts > 0 && !kv_.extend(sequence.kv, rows.begin + 1 + drafts)) --drafts;
    if (drafts <= 0) continue;
    rows.drafts = drafts;
    rows.count += drafts;
    room -= drafts;
    budget.tokens -= drafts;
    plan.tokens += drafts;
    plan.decode_rows += drafts;
  }
}

// --- newcomers ---

void Scheduler::plan_waiting(Budget& budget, StepPlan& plan) {
  const auto has_place = [this] {
    return static_cast<std::int64_t>(running_.size()) < settings_.max_sequences;
  };
  if (queue_.waiting() == 0 || !has_place()) return;
  FairQueue::Turns turns(queue_);
  Sequence* held_up = nullptr;
  for (Sequence* next = turns.next(); next != nullptr && has_place(); next = turns.next()) {
    if (waits_for_lora_place(*next, held_up)) continue;
    if (budget.tokens == 0) {
      plan.blocked_on_budget = true;
      return;
    }
    const Newcomer what = plan_newcomer(*next, budget, plan);
    if (what == Newcomer::kNoRoom) return;
    const bool adapted = next->request.adapter != nullptr;
    if (what == Newcomer::kStarted && adapted && held_up != nullptr)
      ++held_up->standing.edit().overtaken;
  }
}

// `held_up`: the first before it in the queue that does, or null; becomes this one where it is.
bool Scheduler::waits_for_lora_place(Sequence& sequence, Sequence*& held_up) const {
  if (sequence.request.adapter == nullptr) return false;
  const bool too_many =
      held_up != nullptr && held_up->standing->overtaken >= settings_.max_sequences;
  if (!too_many && has_lora_place(sequence)) return false;
  if (held_up == nullptr) held_up = &sequence;
  return true;
}

// Whether its adapter, if it has one, is among those that run or there is room for one more.
bool Scheduler::has_lora_place(const Sequence& sequence) const {
  if (sequence.request.adapter == nullptr) return true;
  std::vector<std::string_view> running;
  for (const Sequence* other : running_) {
    if (other->request.adapter == nullptr) continue;
    const std::string_view identity = other->request.adapter->identity();
    if (identity == sequence.request.adapter->identity()) return true;
    if (std::ranges::find(running, identity) == running.end()) running.push_back(identity);
  }
  return static_cast<std::int64_t>(running.size()) < settings_.max_loras;
}

Scheduler::Newcomer Scheduler::plan_newcomer(Sequence& sequence, Budget& budget, StepPlan& plan) {
  // Its tokens are needed to compute it again.
  if (sequence.progress->unknown > 0) return Newcomer::kPassedOver;
  // What is left of the step is for those that end in it.
  const std::int64_t rest =
      sequence.length() - std::max<std::int64_t>(0, sequence.standing->expected_hit);
  if (budget.room() <= budget.kept && rest > budget.room()) return Newcomer::kPassedOver;
  const bool overlay = images_.mode() == EncoderCache::kOverlay;
  if (!overlay &&
      waits_for_image(sequence, std::max<std::int64_t>(0, sequence.standing->expected_hit))) {
    return Newcomer::kPassedOver;
  }
  if (sequence.standing->refused_at == kv_.releases() + 1) {
    plan.blocked_on_memory = true;
    return Newcomer::kNoRoom;
  }
  const PrefixHit hit = match(sequence);
  // What it starts with came or went since its images were asked for: others may be the next ones.
  if (std::exchange(sequence.standing.edit().expected_hit, hit.tokens) != hit.tokens && !overlay) {
    images_.skip(sequence, hit.tokens);
    images_.want(sequence, hit.tokens, plan.encodes);
  }
  if (!overlay && waits_for_image(sequence, hit.tokens)) return Newcomer::kPassedOver;
  if (!overlay && chunk_of(sequence, hit.tokens, budget, plan) == 0) return Newcomer::kNoRoom;

  switch (kv_.admit(sequence.kv, sequence.content(), sequence.shape(), hit,
                    settings_.max_batched_tokens)) {
    case Admission::kNow:
      break;
    case Admission::kLater:
      sequence.standing.edit().refused_at = kv_.releases() + 1;
      plan.blocked_on_memory = true;
      return Newcomer::kNoRoom;
    case Admission::kNever:
      CHECK(false, "request {} of {} tokens was accepted and can never fit", sequence.request.id,
            sequence.length());
  }
  images_.skip(sequence, sequence.computed());
  if (sequence.progress->reached == 0) sequence.progress.edit().cached_tokens = sequence.computed();
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, ByRank()),
                  &sequence);
  queue_.start(sequence);
  plan.started.push_back(&sequence);
  const std::int64_t begin = sequence.computed();
  const std::int64_t count = chunk_of(sequence, begin, budget, plan);
  if (count > 0) {
    CHECK(kv_.extend(sequence.kv, begin + count), "admitted without room for {} tokens", count);
    push_rows(sequence, count, budget, plan);
  }
  return Newcomer::kStarted;
}

// Whether a newcomer had better not start at token `begin` yet.
bool Scheduler::waits_for_image(const Sequence& sequence, std::int64_t begin) {
  const SequenceImage* image = images_.first_unready(sequence, begin);
  if (image == nullptr) return false;
  const bool needed_at_once = image->begin < sequence.request.prompt->bidirectional_prefix;
  if (!needed_at_once) {
    if (image->begin - begin >= kWorthStarting) return false;
    // No room for it: what is ready has to be read first, and let go.
    const bool holds_others =
        std::any_of(sequence.images->begin(), sequence.images->end(),
                    [&](const SequenceImage& at) { return at.leased && at.end > begin; });
    if (!image->leased && holds_others) return false;
  }
  ++waiting_for_images_;
  return true;
}

PrefixHit Scheduler::match(Sequence& sequence) const {
  return kv_.match(sequence.content(), sequence.shape(), sequence.max_cached());
}

// --- after the step ---

void Scheduler::launch(const StepPlan& plan) {
  for (const PlannedRows& rows : plan.rows) {
    Sequence& sequence = *rows.sequence;
    const std::int64_t end = rows.end();
    kv_.commit(sequence.kv, sequence.content(), end);
    if (!sequence.images->empty()) images_.computed(sequence, rows.begin, end);
    SequenceProgress& progress = sequence.progress.edit();
    progress.reached = std::max(progress.reached, end);
    ++progress.in_flight;
    if (!rows.samples) continue;
    const bool was_long = sequence.is_long();
    ++progress.unknown;
    if (sequence.is_long() != was_long) send_back(sequence);
  }
}

void Scheduler::settle(const StepPlan& plan, std::span<const std::span<const TokenId>> sampled) {
  CHECK(sampled.size() == plan.rows.size(), "tokens of {} rows for {}", sampled.size(),
        plan.rows.size());
  for (std::size_t i = 0; i < plan.rows.size(); ++i) settle(plan.rows[i], sampled[i]);
}

void Scheduler::settle(const StepPlan& plan, std::span<const TokenId> sampled) {
  CHECK(sampled.size() == plan.rows.size(), "{} tokens for {} rows", sampled.size(),
        plan.rows.size());
  for (std::size_t i = 0; i < plan.rows.size(); ++i) settle(plan.rows[i], sampled.subspan(i, 1));
}

void Scheduler::settle(const PlannedRows& rows, std::span<const TokenId> sampled) {
  Sequence& sequence = *rows.sequence;
  SequenceProgress& progress = sequence.progress.edit();
  CHECK(progress.in_flight > 0, "request {} has no rows in flight", sequence.request.id);
  --progress.in_flight;
  if (!rows.samples || progress.ended) return;
  const auto count = static_cast<std::int64_t>(sampled.size());
  CHECK(count >= 1 && count <= rows.sampled(), "{} tokens of {} rows", count, rows.sampled());
  const bool was_long = sequence.is_long();
  --progress.unknown;
  progress.tokens.insert(progress.tokens.end(), sampled.begin(), sampled.end());
  if (!sequence.kv.admitted()) return;
  // Rows of draft tokens that came have their keys and values in place: they were the tokens.
  const std::int64_t end = rows.end() + count - 1;
  if (count > 1) {
    kv_.commit(sequence.kv, sequence.content(), end);
    queue_.charge(sequence,
                  std::max<std::int64_t>(0, end - std::max(rows.end(), progress.reached)));
    progress.reached = std::max(progress.reached, end);
  } else {
    kv_.name(sequence.kv, sequence.content());
  }
  if (rows.drafts > 0) kv_.give_back(sequence.kv);
  if (sequence.is_long() != was_long) send_back(sequence);
}

void Scheduler::finish(Sequence& sequence) {
  sequence.progress.edit().ended = true;
  images_.drop(sequence);
  if (queue_.remove(sequence)) return;
  const auto found = std::lower_bound(running_.begin(), running_.end(), &sequence, ByRank());
  CHECK(found != running_.end() && *found == &sequence, "request {} is not here",
        sequence.request.id);
  running_.erase(found);
  kv_.release(sequence.kv);
}

std::string Scheduler::describe() const {
  std::string text;
  const auto add = [&](std::string_view place, const Sequence& sequence) {
    text += fmt::format("{} request {}: {} of {} tokens computed, rank {}, {} preemptions", place,
                        sequence.request.id, sequence.computed(), sequence.length(),
                        sequence.standing->rank, sequence.standing->preemptions);
    for (const SequenceImage& image : *sequence.images) {
      static constexpr std::string_view kStates[] = {"absent", "encoding", "ready"};
      text += fmt::format(", image at [{}, {}) {}{}", image.begin, image.end,
                          kStates[static_cast<std::size_t>(images_.state(image))],
                          image.leased ? " and leased" : "");
    }
    text += '\n';
  };
  for (const Sequence* sequence : running_) add("running", *sequence);
  for (const Sequence* sequence : queue_.first(static_cast<std::size_t>(queue_.waiting())))
    add("waiting", *sequence);
  return text;
}

}  // namespace saccade
