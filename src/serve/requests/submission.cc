#include "serve/requests/submission.h"

#include <utility>

namespace saccade::serve {

void cancel_answer(Answer& answer, Engine& engine) {
  for (const RequestId taken : answer.cancel()) engine.cancel(taken);
}

Submission::Submission(std::shared_ptr<Answer> answer, Engine& engine,
                       std::atomic<std::size_t>& unfinished)
    : answer_(std::move(answer)), engine_(engine), unfinished_(unfinished) {
  ++unfinished_;
}

Submission::~Submission() {
  if (complete_) return;
  cancel_answer(*answer_, engine_);
  --unfinished_;
}

Result<void> Submission::add(Request request, Sink sink) {
  TRY(const RequestId id, engine_.submit(std::move(request), std::move(sink)));
  if (!answer_->add(id)) engine_.cancel(id);
  return {};
}

}  // namespace saccade::serve
