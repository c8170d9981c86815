#include "serve/image_sizes/size_ticker.h"

#include <chrono>

namespace saccade::serve {

SizeTicker::SizeTicker(ImageSizer& sizer, const Engine& engine)
    : sizer_(sizer), engine_(engine), thread_([this] { run(); }) {}

SizeTicker::~SizeTicker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void SizeTicker::run() {
  const std::chrono::nanoseconds period(sizer_.period());
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return stopping_; })) {
    sizer_.observe(engine_.stats());
    sizer_.tick();
  }
}

}  // namespace saccade::serve
