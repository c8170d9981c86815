// How far the engine is with a request, for whoever predicts how long others will wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace saccade {

// Written by the engine thread, read by any. Every number is there when it is read or a little
// later: nothing is decided by it that has to be exact.
class RequestProgress {
 public:
  // images: of Request::images.
  explicit RequestProgress(std::size_t images)
      : images_(images), encoded_(std::make_unique<std::atomic<bool>[]>(images)) {}

  void set_computed(std::int64_t tokens) { computed_.store(tokens, std::memory_order_relaxed); }
  void set_encoded(std::size_t image) { encoded_[image].store(true, std::memory_order_relaxed); }

  // Tokens of the prompt that are computed or came from the prefix cache.
  std::int64_t computed() const { return computed_.load(std::memory_order_relaxed); }
  // Whether the rows of an image are there, or are not needed any more.
  bool encoded(std::size_t image) const { return encoded_[image].load(std::memory_order_relaxed); }
  std::size_t images() const { return images_; }

 private:
  std::size_t images_;
  std::unique_ptr<std::atomic<bool>[]> encoded_;
  std::atomic<std::int64_t> computed_{0};
};

}  // namespace saccade
