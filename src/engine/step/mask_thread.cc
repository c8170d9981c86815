#include "engine/step/mask_thread.h"

#include <utility>

namespace saccade {

MaskThread::~MaskThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void MaskThread::ask(std::shared_ptr<GuidedSequence> of) {
  of->state_ = GuidedSequence::kAsked;
  asked_.push_back(std::move(of));
}

void MaskThread::start() {
  if (asked_.empty()) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  {
    const std::lock_guard lock(mutex_);
    for (auto& of : asked_) queue_.push_back(std::move(of));
  }
  asked_.clear();
  wake_.notify_one();
}

std::span<const std::uint32_t> MaskThread::wait(GuidedSequence& of) {
  int state = GuidedSequence::kAsked;
  if (of.state_.compare_exchange_strong(state, GuidedSequence::kFilling)) {
    of.fill();
    of.state_ = GuidedSequence::kFilled;
  } else if (state == GuidedSequence::kFilling) {
    of.state_.wait(GuidedSequence::kFilling);
  }
  return of.words_;
}

void MaskThread::work() {
  for (;;) {
    std::shared_ptr<GuidedSequence> of;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      of = std::move(queue_.front());
      queue_.pop_front();
    }
    int state = GuidedSequence::kAsked;
    const bool left = of.use_count() == 1;  // the request has ended
    if (left || !of->state_.compare_exchange_strong(state, GuidedSequence::kFilling)) continue;
    of->fill();
    of->state_ = GuidedSequence::kFilled;
    of->state_.notify_all();
  }
}

}  // namespace saccade
