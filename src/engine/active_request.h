// A request from its submission to its last delta: its sequence, and all that its answer needs.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/drafting/drafter.h"
#include "engine/step/mask_thread.h"
#include "engine/step/sampler.h"
#include "engine/step/stop_checker.h"

namespace saccade {

// Made on the thread that submits; the engine thread's from then on. Not moved: the scheduler and
// the allocator keep the sequence's address.
struct ActiveRequest {
  // The parts, the shape and the device outlive it.
  ActiveRequest(Request request, Sink to, const EngineParts& parts, const ModelShape& shape,
                Device& device);

  RequestId id() const { return sequence.request.id; }
  // The answer's next token, and what goes out with it. An error where it is none.
  Delta take(Sampled& sampled, MaskThread& masks);
  // `later`: tokens that are known and go out with later deltas.
  RequestUsage usage(std::size_t later = 0) const;
  void send(Delta&& delta, std::size_t later = 0);

  Sequence sequence;
  Sink sink;
  StopChecker stop;
  SamplerState sampler;
  std::shared_ptr<GuidedSequence> guide;  // null: free text
  DraftingState drafting;
  std::vector<TokenLogprob> prompt_logprobs;  // so far; until the first token
  bool unscorable = false;                    // logits of the prompt are not numbers
  RequestTimes times;
  Nanos last_token = 0;

 private:
  Delta no_token(const Sampled& sampled, MaskThread& masks);
  void name_contradiction(Delta& delta, MaskThread& masks);
};

// Engine thread.
class ActiveRequests {
 public:
  void add(std::unique_ptr<ActiveRequest> request);
  ActiveRequest* find(RequestId id);  // null: it has ended
  ActiveRequest& of(const Sequence& sequence) { return *by_id_.at(sequence.request.id); }
  // It has had its last delta. Its sequence lives on while rows of it are in flight, until
  // forget_settled() finds that none is.
  void end(RequestId id);
  void forget_settled();

  bool empty() const { return by_id_.empty(); }
  ActiveRequest& any() { return *by_id_.begin()->second; }
  template <typename Call>
  void each(Call&& call) const {
    for (const auto& [id, request] : by_id_) call(*request);
  }

 private:
  std::unordered_map<RequestId, std::unique_ptr<ActiveRequest>> by_id_;
  std::vector<std::unique_ptr<ActiveRequest>> ended_;  // with rows in flight
};

}  // namespace saccade
