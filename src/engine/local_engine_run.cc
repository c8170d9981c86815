// The engine thread from its start to its end, whichever end it is.
#include <exception>
#include <utility>

#include "base/log.h"
#include "engine/local_engine.h"

namespace saccade {

void LocalEngine::run() {
  try {
    run_until_stopped();
    end_all();
  } catch (...) {
    give_up();
    throw;
  }
}

void LocalEngine::run_until_stopped() {
  while (!stopping_) {
    if (step()) continue;
    std::unique_lock lock(inbox_mutex_);
    wake_.wait(lock, [&] { return woken(); });
  }
  while (!in_flight_.empty()) settle();
}

void LocalEngine::tell(Live& of, Delta&& delta, std::size_t later) {
  telling_ = std::this_thread::get_id();
  of.sink(of.sequence.request.id, std::move(delta), usage(of.sequence, later), of.times);
  telling_ = std::thread::id();
}

// Whoever is still here is told.
void LocalEngine::end_all() {
  drain();
  while (!lives_.empty()) {
    Live& rest = *lives_.begin()->second;
    scheduler_.finish(rest.sequence);
    Delta delta;
    delta.finish = FinishReason::kError;
    delta.error = "the server ends, and the time for running answers is over";
    delta.error_code = ErrorCode::kUnavailable;
    finish(rest, std::move(delta), clock_.now());
  }
  if (lent_) lent_->fail_all({ErrorCode::kCancelled, "the engine has stopped", {}});
  if (after_step_) after_step_();
}

// After a step that threw: what scheduler and pages hold is not to be relied on, so nothing is
// asked of them. Each sink by itself: memory may still be short.
void LocalEngine::give_up() {
  {
    const std::lock_guard lock(inbox_mutex_);
    stopping_ = true;
    for (auto& arrival : arrivals_)
      lives_.emplace(arrival->sequence.request.id, std::move(arrival));
    arrivals_.clear();
  }
  for (auto& [id, of] : lives_) {
    if (of->sequence.ended) continue;  // it has had its last delta
    --unfinished_;
    try {
      Delta delta;
      delta.finish = FinishReason::kError;
      delta.error = "the engine has stopped: the server ends";
      delta.error_code = ErrorCode::kUnavailable;
      of->sink(id, std::move(delta), usage(of->sequence), of->times);
    } catch (const std::exception& error) {
      log::error("request {} cannot be told: {}", id, error.what());
    }
  }
  if (lent_) lent_->fail_all({ErrorCode::kUnavailable, "the engine has stopped", {}});
  if (after_step_) after_step_();
}

}  // namespace saccade
