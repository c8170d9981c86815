// Steps on the device: a plan is launched (batch, forward, sampling, the prompts' own
// log-probabilities) and settled later, with what its rows gave. Launched and settled in the order
// in which the plans were made.
#pragma once

#include <deque>
#include <vector>

#include "engine/active_request.h"
#include "engine/images/image_planner.h"
#include "engine/step/lora_slots.h"

namespace saccade {

// Engine thread.
class StepRunner {
 public:
  // All of these outlive it.
  StepRunner(EngineParts& parts, Network& network, Device& device, const Clock& clock,
             const ImagePlanner& images);

  // `requests`: those of the plan's sequences. The plan that is returned lasts until its step is
  // settled.
  const StepPlan& launch(StepPlan plan, ActiveRequests& requests, MaskThread& masks);
  std::size_t in_flight() const { return steps_.size(); }

  struct Settled {
    StepPlan plan;
    std::vector<Sampled> sampled;  // of the rows that sample, in the plan's order
    double forward_seconds = 0;
    double sample_seconds = 0;
    double seconds = 0;  // that the device was at it alone: since it began, or the last one ended
  };
  // The oldest in flight; waits for the device.
  Settled settle();

  std::int64_t embedding_rows() const { return parts_.batches->embedding_rows(); }  // of the last
  const LoraSlots& loras() const { return loras_; }

 private:
  using NamedLogprobs = std::vector<std::pair<TokenId, float>>;
  struct Step {
    StepPlan plan;
    SamplingLane::Ticket ticket;
    std::vector<NamedLogprobs> named;  // of the rows that sample, or empty
    Nanos launched = 0;
    Nanos forwarded = 0;
    Nanos done = 0;
  };
  // A token of a prompt whose log-probability is wanted.
  struct Scored {
    ActiveRequest* of = nullptr;
    SamplingRow row;
  };

  Batch forward(const StepPlan& plan);
  // Into the step's ticket and named.
  void sample(Step& step, const Batch& batch, ActiveRequests& requests, MaskThread& masks);
  std::vector<NamedLogprobs> score_named(View logits);
  void score_prompts(const StepPlan& plan, ActiveRequests& requests);
  void score(std::span<const Scored> slice, const DeviceInts& rows);
  Stream& stream() { return device_.lane(Lane::kStep); }

  EngineParts& parts_;
  Network& network_;
  Device& device_;
  const Clock& clock_;
  const ImagePlanner& images_;
  LoraSlots loras_;
  std::deque<Step> steps_;         // in flight, as launched
  Nanos settled_done_ = 0;         // Step::done of the one settled last
  std::vector<SamplingRow> rows_;  // of one launch
  std::vector<TokenId> drafts_;    // of each of them, as SamplingLane::launch has it
  // SamplingParams::logprob_token_ids of each of them; empty where none has any.
  std::vector<const std::vector<TokenId>*> named_;
};

}  // namespace saccade
