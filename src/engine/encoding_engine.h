// An engine that makes embeddings for others and nothing else: one thread over a vision tower.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "engine/event_count.h"
#include "engine/images/encoder_queue.h"
#include "engine/images/lent_images.h"
#include "engine/images/pixel_loader.h"

namespace saccade {

struct EncodingSettings {
  std::int64_t max_rows = 0;  // of one image; 0: the checkpoint's
  std::int64_t batch_patches = 4096;
  std::size_t max_pixel_bytes = std::size_t{256} << 20;
  int pixel_threads = 2;
};

struct EncodingStats {
  EncoderStats encoder;
  std::uint64_t images_decoded = 0;
  std::int64_t images_loading = 0;
  std::size_t pixel_bytes = 0;
  std::int64_t images_waiting = 0;  // asked for and not done
};

class EncodingEngine {
 public:
  // The network's tower must have been loaded on `device`; reserves its scratch.
  static Result<std::unique_ptr<EncodingEngine>> create(const EncodingSettings& settings,
                                                        Network& network, Device& device,
                                                        const Clock& clock);
  ~EncodingEngine();

  // --- any thread ---
  LentImages& lent() { return *lent_; }
  EncodingStats stats() const;
  void stop();

  void run();  // until stop(); on the engine's thread

 private:
  EncodingEngine(const EncodingSettings& settings, Network& network, Device& device,
                 const Clock& clock);
  bool step();
  void wait_for_encoder(std::uint64_t seen);
  void publish_stats();

  Network& network_;
  Device& device_;
  const Clock& clock_;
  EncoderLimits limits_;
  std::unique_ptr<EncoderQueue> encoder_;
  std::unique_ptr<LentImages> lent_;

  EventCount events_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  EncodingStats published_;              // guarded by mutex_
  std::unique_ptr<PixelLoader> pixels_;  // last: its threads wake the engine
};

}  // namespace saccade
