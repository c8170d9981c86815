// An answer's choices on their way into the engine. Unless all are taken, those that were are
// cancelled, and their ends are not waited for: the client gets an error, or where a choice has
// begun to stream by then, a connection that is closed. Also where memory ends in the middle.
#pragma once

#include <atomic>
#include <memory>

#include "engine/engine.h"
#include "serve/requests/answer.h"

namespace saccade::serve {

// What of it is in the engine, or will be, ends. Any thread.
void cancel_answer(Answer& answer, Engine& engine);

// One thread. Both outlive it, as does `unfinished`: answers that are not complete, of which this
// is one until its last delta or, unless it has been completed, until this ends.
class Submission {
 public:
  Submission(std::shared_ptr<Answer> answer, Engine& engine, std::atomic<std::size_t>& unfinished);
  ~Submission();
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  Result<void> add(Request request, Sink sink);
  void complete() { complete_ = true; }  // all have been taken

 private:
  const std::shared_ptr<Answer> answer_;
  Engine& engine_;
  std::atomic<std::size_t>& unfinished_;
  bool complete_ = false;
};

}  // namespace saccade::serve
