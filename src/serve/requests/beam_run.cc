#include "serve/requests/beam_run.h"

#include <utility>

#include "text/detokenizer.h"

namespace saccade::serve {

BeamRun::BeamRun(BeamSettings settings, std::size_t given, Request request, Engine& engine,
                 Submitted submitted, Give give)
    : search_(settings),
      given_(given),
      request_(std::move(request)),
      engine_(engine),
      submitted_(std::move(submitted)),
      give_(std::move(give)) {}

Result<void> BeamRun::start() { return submit_step(); }

Request BeamRun::request_after(const std::vector<TokenId>& tokens) const {
  Request request = request_;
  request.sampling = {};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 1;
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = static_cast<int>(search_.wanted());
  if (tokens.empty()) return request;
  Prompt prompt = *request_.prompt;
  for (const TokenId token : tokens) {
    const auto at = static_cast<std::int64_t>(prompt.ids.size());
    for (auto& axis : prompt.positions)
      axis.push_back(static_cast<std::int32_t>(at + prompt.position_delta));
    prompt.ids.push_back(token);
  }
  request.prompt = std::move(prompt);
  request.progress = nullptr;  // who waits for the prompt has the first step's
  return request;
}

Result<void> BeamRun::submit_step() {
  const std::span<const Beam> live = search_.live();
  likeliest_.assign(live.size(), {});
  missing_ = live.size();
  const std::size_t step = ++step_;
  for (std::size_t beam = 0; beam < live.size(); ++beam) {
    auto sink = [self = shared_from_this(), beam, step](RequestId, Delta&& delta,
                                                        const RequestUsage& usage,
                                                        const RequestTimes& times) {
      self->take(beam, step, std::move(delta), usage, times);
    };
    TRY(const RequestId id, engine_.submit(request_after(live[beam].tokens), std::move(sink)));
    if (!submitted_(id)) engine_.cancel(id);
  }
  return {};
}

void BeamRun::take(std::size_t beam, std::size_t step, Delta&& delta, const RequestUsage& usage,
                   const RequestTimes& times) {
  if (over_) return;
  if (delta.finish == FinishReason::kError || delta.finish == FinishReason::kCancelled)
    return fail(delta.finish, delta.error_code, delta.error);
  if (step == 1) {
    usage_ = usage;
    times_ = times;
  }
  times_.finished = times.finished;
  likeliest_[beam] = std::move(delta.logprobs.front().top);
  if (--missing_ == 0) advance();
}

void BeamRun::advance() {
  search_.advance(likeliest_);
  if (!search_.live().empty()) {
    const auto submitted = submit_step();
    if (!submitted) fail(FinishReason::kError, submitted.error().code, submitted.error().message);
    return;
  }
  over_ = true;
  std::vector<Beam> best = search_.best();
  best.resize(given_);  // a vocabulary may have fewer: they are empty answers
  for (std::size_t rank = 0; rank < given_; ++rank) {
    RequestUsage usage = usage_;
    usage.completion_tokens = static_cast<std::int64_t>(best[rank].tokens.size());
    give_(rank, whole(std::move(best[rank])), usage, times_);
  }
}

// What other beams still bring is passed over.
void BeamRun::fail(FinishReason reason, ErrorCode code, const std::string& message) {
  over_ = true;
  for (std::size_t rank = 0; rank < given_; ++rank) {
    Delta delta;
    delta.finish = reason;
    delta.error = message;
    delta.error_code = code;
    give_(rank, std::move(delta), usage_, times_);
  }
}

Delta BeamRun::whole(Beam&& beam) const {
  Delta delta;
  Detokenizer text(*request_.tokenizer, request_.sampling.skip_special_tokens);
  for (const TokenId token : beam.tokens) delta.text += text.push(token);
  delta.text += text.finish();
  delta.tokens = std::move(beam.tokens);
  delta.logprobs = std::move(beam.logprobs);
  delta.finish = beam.finish == FinishReason::kNone ? FinishReason::kStop : beam.finish;
  return delta;
}

}  // namespace saccade::serve
