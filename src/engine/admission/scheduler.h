// Who computes what in the next step. Pure: no clock, no threads, no tensors. plan() returns a
// value; launch() says that it is under way, settle() takes it back with the tokens that it gave.
// Plans may be made between the two: a token that is being sampled counts as one whose id is not
// known, and a sequence that turns out to have ended has its rows in later plans thrown away. Plans
// are launched and settled in the order in which they were made.
//
//   1. Sequences that run come first, in order of rank, each with the tokens it still has to
//      compute: one for a decoding one, a chunk for a prefilling one.
//   2. What is left of the token budget goes to the waiting, unless something had to be preempted.
//      The first that finds no pages ends the search, so that later ones do not take the pages
//      that it waits for. Who only waits for an image is passed over and keeps its place.
//   3. When pages run out, the sequence of the last rank is preempted, of several clients the last
//      of those with more than their share: its pages go, its tokens stay, and it is computed again
//      later.
//   4. A sequence that has grown longer than its model's short length (LongRoPE) goes back to the
//      waiting, in its old place: it is computed again, by other angles, from its first token on.
//   5. A sequence at its greatest length has no more rows planned, and one that waits to be
//      computed again does so until its last token is known.
//   6. Draft tokens (Sequence::draft) take what everybody else has left of the budget and of the
//      pages, and preempt nobody. What they are depends on the last token: a sequence that has some
//      is not planned ahead, nor is one that waits for its draft.
//   7. Clients that have work share the places and the order of the waiting (fair_queue.h). Where
//      all places are taken, or no pages are free for who is next, clients above their share give
//      way to those that wait below theirs.
//   8. Of adapters no more than max_loras run at once. Who waits for another's to end is passed
//      over, by no more newcomers with adapters than there are places.
//
// Rank = priority * aging + steps at arrival. A less urgent request is so overtaken by at most
// `aging` steps' worth of later arrivals for each unit of priority: nobody starves, and the order
// of any two never changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/admission/fair_queue.h"
#include "engine/engine_settings.h"
#include "engine/images/image_planner.h"
#include "engine/step/step_plan.h"

namespace saccade {

// Limits of one step, below the settings'.
struct StepLimits {
  std::int64_t prefill_tokens = std::int64_t{1} << 40;  // latency-targeted chunks
};

class Scheduler {
 public:
  // All of these outlive it.
  Scheduler(const EngineSettings& settings, KvAllocator& kv, ImagePlanner& images);

  // The sequence must outlive its finish().
  void add(Sequence& sequence);
  StepPlan plan(const StepLimits& limits = {});
  // The plan's rows are being computed, before anything that a later plan asks for. Before the next
  // plan().
  void launch(const StepPlan& plan);
  // sampled[i] is what row i of plan.rows gave: the tokens of its draft that came, as far as the
  // answer takes them, and one more. Ignored where it does not sample or where the sequence has
  // ended. Sequences that end by it are finished by the caller afterwards.
  void settle(const StepPlan& plan, std::span<const std::span<const TokenId>> sampled);
  // The same of a plan without drafts: one token a row.
  void settle(const StepPlan& plan, std::span<const TokenId> sampled);
  // Leaves the engine, from any phase, but not between a plan() and its launch(). The sequence must
  // live on until in_flight is 0.
  void finish(Sequence& sequence);

  std::span<Sequence* const> running() const { return running_; }  // by rank
  std::int64_t waiting() const { return queue_.waiting(); }
  const FairQueue& queue() const { return queue_; }
  std::int64_t waiting_for_images() const { return waiting_for_images_; }
  bool idle() const { return running_.empty() && queue_.waiting() == 0; }
  // Who is here and what each waits for, a line a sequence: for a log, should all come to a halt.
  std::string describe() const;

 private:
  struct Budget {
    std::int64_t tokens = 0;
    std::int64_t prefill = 0;
    std::int64_t kept = 0;  // of both, what no prompt gets that does not end in this step
    // Tokens of a prompt.
    std::int64_t room() const { return std::min(tokens, prefill); }
  };

  void rebalance(StepPlan& plan);
  bool give_way(StepPlan& plan);
  struct Held {
    std::unordered_map<ClientId, std::int64_t> tokens;
    std::int64_t share = 0;
  };
  Held held() const;
  void rebalance_pages(StepPlan& plan);
  Sequence& to_preempt(const Sequence& wants);
  void want_images(StepPlan& plan);
  void want_overlays(Sequence& sequence, StepPlan& plan);
  std::int64_t kept_for_short_ones(const Budget& budget);
  void plan_running(Budget& budget, StepPlan& plan);
  void plan_waiting(Budget& budget, StepPlan& plan);
  enum class Newcomer { kStarted, kPassedOver, kNoRoom };
  bool has_lora_place(const Sequence& sequence) const;
  bool waits_for_lora_place(Sequence& sequence, Sequence*& held_up) const;
  bool waits_for_image(const Sequence& sequence, std::int64_t begin);
  Newcomer plan_newcomer(Sequence& sequence, Budget& budget, StepPlan& plan);
  std::int64_t chunk_of(const Sequence& sequence, std::int64_t begin, const Budget& budget,
                        StepPlan& plan) const;
  bool make_room(Sequence& sequence, std::int64_t end, std::int64_t reserve, StepPlan& plan);
  void push_rows(Sequence& sequence, std::int64_t count, Budget& budget, StepPlan& plan);
  void plan_drafts(Budget& budget, StepPlan& plan);
  std::int64_t max_drafted(const Sequence& sequence) const;
  void settle(const PlannedRows& rows, std::span<const TokenId> sampled);
  void send_back(Sequence& sequence);
  void preempt(Sequence& sequence, StepPlan& plan);
  PrefixHit match(Sequence& sequence) const;

  const EngineSettings& settings_;
  KvAllocator& kv_;
  ImagePlanner& images_;
  std::vector<Sequence*> running_;  // by rank
  FairQueue queue_;
  std::int64_t waiting_for_images_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace saccade
