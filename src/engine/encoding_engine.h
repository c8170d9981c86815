// An engine that makes embeddings for others and nothing else: one thread over a vision tower.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "engine/event_count.h"
#include "engine/images/image_encoder.h"

namespace saccade {

struct EncodingStats {
  EncoderStats encoder;
  std::uint64_t images_decoded = 0;
  std::int64_t images_loading = 0;
  std::size_t pixel_bytes = 0;
  std::int64_t images_waiting = 0;  // asked for and not done
};

class EncodingEngine {
 public:
  // The network's tower must have been loaded on `device`; reserves its scratch. Images may be as
  // large as the checkpoint's, whatever `settings.limits` say.
  static Result<std::unique_ptr<EncodingEngine>> create(ImageEncoderSettings settings,
                                                        Network& network, Device& device,
                                                        const Clock& clock);

  // --- any thread ---
  LentImages& lent() { return encoder_->lent(); }
  EncodingStats stats() const;
  void stop();

  void run();  // until stop(); on the engine's thread

 private:
  EncodingEngine() = default;
  bool step();
  void publish_stats();

  EventCount events_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  EncodingStats published_;                // guarded by mutex_
  std::unique_ptr<ImageEncoder> encoder_;  // last: its threads wake the engine
};

}  // namespace saccade
