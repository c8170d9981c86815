#include "engine/active_request.h"

#include <algorithm>
#include <utility>

namespace saccade {
namespace {

std::uint64_t seed_of(const Request& request, const EngineSettings& settings) {
  return request.sampling.seed ? *request.sampling.seed : hash_combine(settings.seed, request.id);
}

}  // namespace

ActiveRequest::ActiveRequest(Request request, Sink to, const EngineParts& parts,
                             const ModelShape& shape, Device& device)
    : sequence(std::move(request), shape.tower_fingerprint, shape.short_length,
               parts.kv->plan().block_tokens, parts.settings.max_model_len),
      sink(std::move(to)),
      stop(sequence.request.sampling, sequence.request.tokenizer.get(), shape.eos,
           sequence.prompt_tokens(), parts.settings.max_model_len),
      sampler(sequence.request.sampling, sequence.request.prompt->ids, shape.eos,
              seed_of(sequence.request, parts.settings), device),
      drafting(sequence.request, parts),
      times(sequence.request.times) {
  if (sequence.request.sampling.grammar)
    guide = std::make_shared<GuidedSequence>(sequence.request.sampling.grammar);
}

Delta ActiveRequest::take(Sampled& sampled, MaskThread& masks) {
  if (sampled.failed || unscorable || (guide && !guide->accept(sampled.token)))
    return no_token(sampled, masks);
  Delta delta = stop.push(sampled.token);
  if (sequence.request.sampling.logprobs) delta.logprobs.push_back(std::move(sampled.logprob));
  delta.prompt_logprobs = std::exchange(prompt_logprobs, {});
  return delta;
}

Delta ActiveRequest::no_token(const Sampled& sampled, MaskThread& masks) {
  Delta delta;
  delta.finish = FinishReason::kError;
  delta.error = "the model's logits are not finite";
  if (unscorable) return delta;
  const SamplingParams& params = sequence.request.sampling;
  if (guide && (!sampled.failed || guide->stuck())) {
    delta.error = "the answer can be followed no further: its grammar has too many readings of it";
    delta.error_code = ErrorCode::kInvalid;
  } else if (guide) {
    name_contradiction(delta, masks);
  } else if (!params.allowed_tokens->empty() || !params.bad_words->empty()) {
    delta.error = "no token may come next: allowed_token_ids, bad_words and min_tokens leave none";
    delta.error_code = ErrorCode::kInvalid;
  }
  return delta;
}

// A grammar let a token come that could not be sampled: none is left, or the logits are not finite.
void ActiveRequest::name_contradiction(Delta& delta, MaskThread& masks) {
  const std::span<const std::uint32_t> words = masks.wait(*guide);
  const bool any = std::ranges::any_of(words, [](std::uint32_t word) { return word != 0; });
  if (any && sampler.leaves_any(words)) return;
  const SamplingParams& params = sequence.request.sampling;
  delta.error_code = ErrorCode::kInvalid;
  if (!any) {
    delta.error = "no token may come next: none of the model's is what the grammar asks for";
    return;
  }
  const bool allowed = !params.allowed_tokens->empty();
  const bool bad = !params.bad_words->empty();
  delta.error =
      fmt::format("no token may come next: of those that the grammar lets come {} {} none",
                  allowed && bad ? "allowed_token_ids and bad_words"
                  : allowed      ? "allowed_token_ids"
                                 : "bad_words",
                  allowed && !bad ? "have" : "leave");
}

RequestUsage ActiveRequest::usage(std::size_t later) const {
  RequestUsage usage;
  usage.prompt_tokens = sequence.prompt_tokens();
  usage.completion_tokens = sequence.generated() - static_cast<std::int64_t>(later);
  usage.cached_tokens = sequence.progress->cached_tokens;
  usage.image_tokens = sequence.layout.image_tokens;
  usage.video_tokens = sequence.layout.video_tokens;
  return usage;
}

void ActiveRequest::send(Delta&& delta, std::size_t later) {
  sink(id(), std::move(delta), usage(later), times);
}

void ActiveRequests::add(std::unique_ptr<ActiveRequest> request) {
  const RequestId id = request->id();
  by_id_.emplace(id, std::move(request));
}

ActiveRequest* ActiveRequests::find(RequestId id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

void ActiveRequests::end(RequestId id) {
  const auto found = by_id_.find(id);
  if (found->second->sequence.progress->in_flight > 0) ended_.push_back(std::move(found->second));
  by_id_.erase(found);
}

void ActiveRequests::forget_settled() {
  std::erase_if(ended_,
                [](const auto& request) { return request->sequence.progress->in_flight == 0; });
}

}  // namespace saccade
