// A beam search on its way through the engine: in each step a request of one token for every beam.
// Beams share the prompt's and each other's pages by the prefix cache; without one each step
// computes all of them again.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/step/beam_search.h"

namespace saccade::serve {

// start() on any thread, the rest on the engine thread. It lives as long as requests of it do.
class BeamRun : public std::enable_shared_from_this<BeamRun> {
 public:
  // The whole of choice `rank` of the best, as one delta; errors come for all of them.
  using Give = std::function<void(std::size_t rank, Delta&& delta, const RequestUsage& usage,
                                  const RequestTimes& times)>;
  // Told of every request, so that it can be cancelled; false: it is to be at once.
  using Submitted = std::function<bool(RequestId id)>;

  // `given`: of the best; at most settings.width. `request` has the prompt, and a sampling of which
  // what a text's form needs is read.
  BeamRun(BeamSettings settings, std::size_t given, Request request, Engine& engine,
          Submitted submitted, Give give);

  // Submits the first step. An error is of the first request; later ones go to `give`.
  Result<void> start();

 private:
  Result<void> submit_step();
  void take(std::size_t beam, std::size_t step, Delta&& delta, const RequestUsage& usage,
            const RequestTimes& times);
  void advance();
  void fail(FinishReason reason, ErrorCode code, const std::string& message);
  Request request_after(const std::vector<TokenId>& tokens) const;
  Delta whole(Beam&& beam) const;

  BeamSearch search_;
  const std::size_t given_;
  const Request request_;
  Engine& engine_;
  const Submitted submitted_;
  const Give give_;
  std::vector<BeamSearch::Likeliest> likeliest_;  // of the step under way
  std::size_t step_ = 0;
  std::size_t missing_ = 0;  // of its beams
  bool over_ = false;
  RequestUsage usage_;  // of the first step
  RequestTimes times_;  // likewise, but for the end
};

}  // namespace saccade::serve
