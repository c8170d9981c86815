// What an engine runs before it serves.
#include <utility>

#include "base/log.h"
#include "engine/local_engine.h"

namespace saccade {
namespace {

// Steps of decode of one size until they are a graph, and some in which others begin or end.
constexpr std::int64_t kDecodeTokens = 10;

// The kinds of sampling that have kernels of their own.
std::vector<SamplingParams> samplings() {
  SamplingParams greedy;
  greedy.temperature = 0;
  SamplingParams plain;
  plain.temperature = 1;
  SamplingParams cut = plain;
  cut.top_p = 0.9;
  cut.top_k = 20;
  cut.min_p = 0.01;
  SamplingParams penalised = cut;
  penalised.repetition_penalty = 1.1;
  penalised.presence_penalty = 0.1;
  return {greedy, plain, cut, penalised};
}

}  // namespace

Result<void> LocalEngine::run_all(std::vector<Request> requests) {
  std::size_t unfinished = 0;
  std::optional<Error> error;
  for (Request& request : requests) {
    request.sampling.ignore_eos = true;
    TRY_DO(submit(std::move(request),
                  [&](RequestId, Delta&& delta, const RequestUsage&, const RequestTimes&) {
                    if (delta.finish == FinishReason::kNone) return;
                    --unfinished;
                    if (delta.finish == FinishReason::kError)
                      error = Error{delta.error_code, delta.error, {}};
                  }));
    ++unfinished;
  }
  while (unfinished > 0) step();
  while (!in_flight_.empty()) settle();
  if (error) return fail(*std::move(error));
  return {};
}

Result<EngineParts> LocalEngine::warmed_up(EngineParts parts, Network& network, Device& device,
                                           const Clock& clock, bool tower, const WarmUp& with) {
  const Nanos begin = clock.now();
  LocalEngine engine(std::move(parts), network, device, clock);
  TRY_DO(engine.make_encoder(nullptr, tower));
  const EngineSettings& settings = engine.settings();
  const auto prompt = [&](std::int64_t tokens, const SamplingParams& sampling,
                          std::int64_t answer) -> Result<Request> {
    TRY(Request request, with.text(tokens));
    request.sampling = sampling;
    request.sampling.max_tokens = answer;
    return request;
  };
  const std::int64_t room = settings.max_model_len - kDecodeTokens;
  std::size_t sizes = 0;
  const auto run = [&]() -> Result<void> {
    const std::int64_t longest = std::min(settings.max_batched_tokens, room - kDecodeTokens);
    for (const SamplingParams& sampling : samplings()) {
      TRY(Request request, prompt(std::max<std::int64_t>(1, longest), sampling, 2));
      std::vector<Request> one;
      one.push_back(std::move(request));
      TRY_DO(engine.run_all(std::move(one)));
    }
    if (with.image && engine.encoder_) {
      TRY(Request request, with.image());
      std::vector<Request> one;
      one.push_back(std::move(request));
      TRY_DO(engine.run_all(std::move(one)));
    }
    for (const std::int64_t rows : engine.parts_.graph_rows) {
      if (seconds(clock.now() - begin) > with.seconds) break;
      std::vector<Request> many;
      for (std::int64_t i = 0; i < rows; ++i) {
        TRY(Request request, prompt(1, samplings().front(), std::min(room, kDecodeTokens)));
        many.push_back(std::move(request));
      }
      TRY_DO(engine.run_all(std::move(many)));
      ++sizes;
    }
    return {};
  };
  // What it is for is made later then.
  if (const auto ran = run(); !ran) log::warning("warming up: {}", ran.error().message);
  device.synchronize();
  engine.parts_.kv->reset_prefix_cache();
  log::info("warmed up in {:.1f} s: {} of {} sizes of step", seconds(clock.now() - begin), sizes,
            engine.parts_.graph_rows.size());
  return std::move(engine.parts_);
}

}  // namespace saccade
