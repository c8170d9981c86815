// Pixels of images that are wanted, on their way to the encoder: decoded on threads of their own,
// in the order of asking, as many side by side as a budget of bytes allows. What is in the
// embedding store, or is wanted by another request already, never comes here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/byte_budget.h"
#include "base/hash.h"
#include "base/threads/worker_pool.h"
#include "engine/images/image_source.h"
#include "engine/request.h"

namespace saccade {

// Engine thread.
class PixelLoader {
 public:
  struct Loaded {
    Digest key{};
    ClientId client = 0;  // who asked for it first
    // Holds its bytes of the budget for as long as anybody holds the image.
    Result<std::shared_ptr<const PreparedImage>> image;
  };
  // `wake` is called on a thread of the loader when there is something to take; must not block.
  PixelLoader(int threads, std::size_t max_bytes, std::function<void()> wake);
  ~PixelLoader();  // ends what has begun within a few rows of pixels

  // Does nothing for a key that is on its way. One that alone needs more than the budget has is
  // loaded when nothing else is.
  void push(const Digest& key, std::shared_ptr<const ImageSource> source, ClientId client = 0);
  // What has come since the last call, in no order; starts what there is room for now. Those that
  // nobody wants any more are forgotten: what has begun of them ends within a few rows of pixels,
  // comes as kCancelled, and has begun anew if it was asked for again.
  std::vector<Loaded> take(const std::function<bool(const Digest&)>& wanted);

  bool contains(const Digest& key) const { return keys_.contains(key); }
  std::int64_t waiting() const { return static_cast<std::int64_t>(keys_.size()) + ending_; }
  std::size_t bytes() const { return budget_.used(); }
  std::uint64_t loads() const { return loads_; }  // begun

 private:
  struct Job {
    Digest key{};
    ClientId client = 0;
    std::shared_ptr<const ImageSource> source;
  };
  using Flag = std::shared_ptr<std::atomic<bool>>;
  struct Ended {
    Loaded loaded;
    Flag cancelled;
  };
  void start();

  const ByteBudget budget_;
  const std::function<void()> wake_;
  std::deque<Job> queue_;
  // Queued, or begun and not taken.
  std::unordered_set<Digest, DigestHash> keys_;
  std::unordered_map<Digest, Flag, DigestHash> begun_;  // of them: set where nobody wants it
  std::int64_t ending_ = 0;                             // begun, wanted by nobody, and not taken
  std::uint64_t loads_ = 0;
  std::mutex mutex_;
  std::vector<Ended> ended_;  // guarded by mutex_
  WorkerPool threads_;        // last: its jobs use everything above
};

// Bytes that an image holds between loading and encoding.
std::size_t pixel_bytes(const PreparedImage& image);

}  // namespace saccade
