// Images on their way to embeddings. Decode never waits for one: the engine calls advance() between
// steps, and each call does one stage (patches, one layer, the merger) of one batch.
//
// Images wanted by several sequences are encoded once; those that nobody wants any more are dropped
// when a batch is formed. Small images share a batch, up to a cap on patch rows that bounds how
// long one stage takes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "engine/request.h"

namespace saccade {

struct EncoderLimits {
  std::int64_t batch_patches = 4096;  // rows of a batch of more than one image
  std::int64_t max_patches = 0;       // rows of one image: what the model has reserved
  std::int64_t max_rows = 0;          // embedding rows of one image
};

struct EncoderStats {
  std::uint64_t runs = 0;
  std::uint64_t images = 0;
  std::uint64_t rows = 0;
};

// Engine thread.
class EncoderQueue {
 public:
  // An image is done: its rows, valid during the call.
  using Publish = std::function<void(const Digest& key, View rows)>;
  // Whether anybody still wants the key.
  using Wanted = std::function<bool(const Digest& key)>;

  static Result<std::unique_ptr<EncoderQueue>> create(Model& model, Backend& backend,
                                                      const EncoderLimits& limits,
                                                      const Clock& clock, Publish publish,
                                                      Wanted wanted);

  // Does nothing for a key that is queued or being encoded.
  void push(const Digest& key, std::shared_ptr<const PreparedImage> image);
  // One stage of the run in progress, or of a new one. False: nothing to do.
  bool advance();

  bool idle() const { return !run_ && queue_.empty(); }
  bool running() const { return run_ != nullptr; }
  std::int64_t waiting() const { return static_cast<std::int64_t>(queue_.size()); }
  const EncoderStats& stats() const { return stats_; }

  // A batch begins, a batch is done: for the times that requests carry.
  struct Event {
    std::vector<Digest> keys;
    Nanos queued = 0;  // of the oldest
    Nanos begin = 0;
    Nanos end = 0;  // 0: has begun
  };
  void set_observer(std::function<void(const Event&)> observer) { observer_ = std::move(observer); }

 private:
  struct Job {
    Digest key{};
    std::shared_ptr<const PreparedImage> image;
    Nanos queued = 0;
  };
  EncoderQueue(Model& model, Backend& backend, const EncoderLimits& limits, const Clock& clock,
               Publish publish, Wanted wanted, Buffer scratch);
  bool begin_batch();
  void finish_batch();

  Model& model_;
  Backend& backend_;
  EncoderLimits limits_;
  const Clock& clock_;
  Publish publish_;
  Wanted wanted_;
  std::function<void(const Event&)> observer_;
  Buffer scratch_;  // [max rows, hidden] of kv_dtype
  std::int64_t scratch_rows_;
  std::deque<Job> queue_;
  std::unordered_set<Digest, DigestHash> keys_;  // queued or in the run
  std::vector<Job> batch_;
  std::vector<const PreparedImage*> batch_images_;
  std::vector<View> batch_rows_;
  std::unique_ptr<EncodeRun> run_;
  Event event_;
  EncoderStats stats_;
};

// Patch rows of an image, as the encoder counts them.
std::int64_t patch_rows(const PreparedImage& image);

}  // namespace saccade
