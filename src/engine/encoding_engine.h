// An engine that makes embeddings for others and nothing else: one thread over a vision tower.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/encoder_queue.h"
#include "engine/pixel_loader.h"

namespace saccade {

struct EncodingSettings {
  std::int64_t max_rows = 0;  // of one image; 0: the checkpoint's
  std::int64_t batch_patches = 4096;
  std::size_t max_pixel_bytes = std::size_t{256} << 20;
  int pixel_threads = 2;
};

// What became of an image.
struct EncodedImage {
  std::vector<std::byte> rows;  // [rows, embedding_width] of kv_dtype, of the host
  Nanos queued = 0;             // how long it waited, its decoding included
  Nanos encoded = 0;
};

struct EncodingStats {
  EncoderStats encoder;
  std::uint64_t images_decoded = 0;
  std::int64_t images_loading = 0;
  std::size_t pixel_bytes = 0;
  std::int64_t images_waiting = 0;  // asked for and not done
  EncodeCost cost;
};

class EncodingEngine {
 public:
  // The network's tower must have been loaded on `device`; reserves its scratch.
  static Result<std::unique_ptr<EncodingEngine>> create(const EncodingSettings& settings,
                                                        Network& network, Device& device,
                                                        const Clock& clock);
  ~EncodingEngine();

  // --- any thread ---
  // Called once an image, on the engine's thread; kCancelled for one that was let go, and for those
  // that stop() found.
  using Done = std::function<void(const Digest& key, Result<EncodedImage> image)>;
  // The key is not being encoded.
  void encode(const Digest& key, std::shared_ptr<const ImageSource> source, Done done);
  void let_go(const Digest& key);
  EncodingStats stats() const;
  std::int64_t max_rows() const { return limits_.max_rows; }
  void stop();

  void run();  // until stop(); on the engine's thread

 private:
  struct Job {
    Digest key{};
    std::shared_ptr<const ImageSource> source;
    Done done;
    Nanos since = 0;
  };
  EncodingEngine(const EncodingSettings& settings, Network& network, Device& device,
                 const Clock& clock);
  bool step();
  bool drain();
  void end(const Digest& key, Result<EncodedImage> image);
  void publish(const Digest& key, View rows);
  void publish_stats();

  Network& network_;
  Device& device_;
  const Clock& clock_;
  EncoderLimits limits_;
  std::unique_ptr<EncoderQueue> encoder_;
  std::unordered_map<Digest, Job, DigestHash> jobs_;
  Nanos run_begun_ = 0;
  Buffer staging_;

  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job> arrivals_;            // guarded by mutex_
  std::vector<Digest> left_;             // guarded by mutex_
  bool pixels_came_ = false;             // guarded by mutex_
  EncodingStats published_;              // guarded by mutex_
  std::unique_ptr<PixelLoader> pixels_;  // last: its threads wake the engine
};

}  // namespace saccade
