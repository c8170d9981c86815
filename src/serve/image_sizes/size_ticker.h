// Gives the level its steps and its measurements while the server runs, whether requests come or
// not.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/engine.h"
#include "serve/image_sizes/image_sizer.h"

namespace saccade::serve {

// A thread of its own from construction to destruction.
class SizeTicker {
 public:
  SizeTicker(ImageSizer& sizer, const Engine& engine);
  ~SizeTicker();
  SizeTicker(const SizeTicker&) = delete;
  SizeTicker& operator=(const SizeTicker&) = delete;

 private:
  void run();

  ImageSizer& sizer_;
  const Engine& engine_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // last: it uses everything above
};

}  // namespace saccade::serve
