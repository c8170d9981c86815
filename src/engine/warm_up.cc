#include "engine/warm_up.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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

class WarmUpRun {
 public:
  WarmUpRun(LocalEngine& engine, const Clock& clock, const WarmUp& with)
      : engine_(engine), clock_(clock), with_(with), begin_(clock.now()) {}

  Result<void> run() {
    const EngineSettings& settings = engine_.settings();
    const std::int64_t longest = std::min(settings.max_batched_tokens, room() - kDecodeTokens);
    for (const SamplingParams& sampling : samplings())
      TRY_DO(run_all(1, std::max<std::int64_t>(1, longest), sampling, 2));
    if (with_.image && engine_.lent() != nullptr) {
      TRY(Request request, with_.image());
      TRY_DO(submit(std::move(request)));
      TRY_DO(finish());
    }
    for (const std::int64_t rows : engine_.parts().graph_rows) {
      if (taken() > with_.seconds) break;
      TRY_DO(run_all(rows, 1, samplings().front(), std::min(room(), kDecodeTokens)));
      ++sizes_;
    }
    return {};
  }

  double taken() const { return seconds(clock_.now() - begin_); }
  std::size_t sizes() const { return sizes_; }  // of steps that have been run

 private:
  std::int64_t room() const { return engine_.settings().max_model_len - kDecodeTokens; }

  Result<void> run_all(std::int64_t requests, std::int64_t tokens, const SamplingParams& sampling,
                       std::int64_t answer) {
    std::vector<Request> all;
    for (std::int64_t i = 0; i < requests; ++i) {
      TRY(Request request, with_.text(tokens));
      request.sampling = sampling;
      request.sampling.max_tokens = answer;
      all.push_back(std::move(request));
    }
    for (Request& request : all) TRY_DO(submit(std::move(request)));
    return finish();
  }

  Result<void> submit(Request request) {
    request.sampling.ignore_eos = true;
    TRY_DO(engine_.submit(std::move(request), [this](RequestId, Delta&& delta, const RequestUsage&,
                                                     const RequestTimes&) {
      if (delta.finish == FinishReason::kNone) return;
      --unfinished_;
      if (delta.finish == FinishReason::kError) error_ = Error{delta.error_code, delta.error, {}};
    }));
    ++unfinished_;
    return {};
  }

  // Until each has had its last delta.
  Result<void> finish() {
    while (unfinished_ > 0) engine_.step();
    engine_.settle_all();
    if (error_) return fail(*std::move(error_));
    return {};
  }

  LocalEngine& engine_;
  const Clock& clock_;
  const WarmUp& with_;
  const Nanos begin_;
  std::size_t unfinished_ = 0;
  std::optional<Error> error_;
  std::size_t sizes_ = 0;
};

}  // namespace

Result<EngineParts> warmed_up(EngineParts parts, Network& network, Device& device,
                              const Clock& clock, bool tower, const WarmUp& with) {
  TRY(const std::unique_ptr<LocalEngine> engine,
      LocalEngine::create(std::move(parts), network, device, clock, nullptr, tower));
  WarmUpRun run(*engine, clock, with);
  // What it is for is made later then.
  if (const auto ran = run.run(); !ran) log::warning("warming up: {}", ran.error().message);
  device.synchronize();
  EngineParts warm = engine->take_parts();
  warm.kv->reset_prefix_cache();
  log::info("warmed up in {:.1f} s: {} of {} sizes of step", run.taken(), run.sizes(),
            warm.graph_rows.size());
  return warm;
}

}  // namespace saccade
