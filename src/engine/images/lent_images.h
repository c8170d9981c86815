// Images that other processes have an engine encode, beside its own or instead of them: what they
// ask, and the way of the rows to them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/images/encode_cost.h"
#include "engine/images/image_source.h"
#include "memory/embedding_store.h"
#include "ops/device.h"

namespace saccade {

// What became of an image.
struct EncodedImage {
  std::vector<std::byte> rows;  // [rows, embedding_width] of embedding_dtype, of the host
  Nanos queued = 0;             // how long it waited, its decoding included
  Nanos encoded = 0;
};

class LentImages {
 public:
  // `wake`: of the engine, when something has come. `max_rows`: of one image.
  LentImages(Device& device, const Clock& clock, std::int64_t max_rows, std::function<void()> wake)
      : device_(device), clock_(clock), max_rows_(max_rows), wake_(std::move(wake)) {}

  // --- any thread ---
  // Called once an image, on the engine's thread, or within encode() once the engine has closed;
  // kCancelled for one that was let go, and for those that the engine's end found.
  using Done = std::function<void(const Digest& key, Result<EncodedImage> image)>;
  // The key is not being encoded for others.
  void encode(const Digest& key, std::shared_ptr<const ImageSource> source, Done done);
  void let_go(const Digest& key);
  EncodeCost cost() const;
  std::int64_t max_rows() const { return max_rows_; }

  // --- the engine's thread ---
  using Start =
      std::function<void(const Digest& key, const std::shared_ptr<const ImageSource>& source)>;
  // What has come since the last time: new images are started, those let go are ended. False:
  // nothing had.
  bool take(const Start& start);
  bool wanted(const Digest& key) const { return jobs_.contains(key); }
  std::size_t size() const { return jobs_.size(); }
  // A batch begins now: of what publish() brings next.
  void begun(Nanos at) { begun_ = at; }
  // Nothing for a key that nobody wants.
  void publish(const Digest& key, View rows);
  void fail(const Digest& key, const Error& error);
  // The answer of all that wait, and of all that come from now on.
  void close(const Error& error);
  void measured(const EncodeCost& cost);

 private:
  struct Job {
    Digest key{};
    std::shared_ptr<const ImageSource> source;
    Done done;
    Nanos since = 0;
  };
  Result<EncodedImage> read(const Job& job, View rows);
  void end(const Digest& key, Result<EncodedImage> image);

  Device& device_;
  const Clock& clock_;
  const std::int64_t max_rows_;
  const std::function<void()> wake_;
  std::unordered_map<Digest, Job, DigestHash> jobs_;
  Nanos begun_ = 0;
  Buffer staging_;

  mutable std::mutex mutex_;
  std::vector<Job> arrivals_;    // guarded by mutex_
  std::vector<Digest> left_;     // guarded by mutex_
  EncodeCost cost_;              // guarded by mutex_
  std::optional<Error> closed_;  // guarded by mutex_
};

}  // namespace saccade
