#include "engine/encoding_engine.h"

#include <utility>

namespace saccade {

Result<std::unique_ptr<EncodingEngine>> EncodingEngine::create(ImageEncoderSettings settings,
                                                               Network& network, Device& device,
                                                               const Clock& clock) {
  EncoderLimits& limits = settings.limits;
  limits.max_rows = network.shape().max_image_tokens;
  limits.max_patches = network.shape().max_image_patches;
  Capacity capacity;
  capacity.rows = 1;
  capacity.sequences = 1;
  capacity.logit_rows = 1;
  capacity.image_patches = limits.max_patches;
  capacity.length = 1;
  TRY_DO(network.reserve(device, capacity));
  std::unique_ptr<EncodingEngine> engine(new EncodingEngine());
  // It has no requests of its own.
  TRY(engine->encoder_,
      ImageEncoder::create(network, device, clock, settings,
                           {.wake = [self = engine.get()] { self->events_.notify(); },
                            .publish = [](const Digest&, View) {},
                            .failed = [](const Digest&, const Error&) {},
                            .wanted = [](const Digest&) { return false; },
                            .batch = [](const EncoderQueue::Event&) {}}));
  return engine;
}

// --- any thread ---

EncodingStats EncodingEngine::stats() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

void EncodingEngine::stop() {
  stopping_ = true;
  events_.notify();
}

// --- the engine thread ---

void EncodingEngine::run() {
  try {
    for (;;) {
      const std::uint64_t seen = events_.count();
      if (stopping_) break;
      if (!step()) events_.wait(seen);
    }
  } catch (...) {
    lent().close({ErrorCode::kUnavailable, "the encoder has stopped", {}});
    throw;
  }
  lent().close({ErrorCode::kCancelled, "the encoder has stopped", {}});
}

bool EncodingEngine::step() {
  const std::uint64_t seen = events_.count();
  EncoderQueue& queue = encoder_->queue();
  bool busy = encoder_->take();
  busy = queue.prune() || busy;
  if (!queue.idle()) {
    queue.advance();
    busy = true;
    encoder_->wait(events_, seen);
  }
  publish_stats();
  return busy;
}

void EncodingEngine::publish_stats() {
  EncodingStats now;
  now.encoder = encoder_->queue().stats();
  now.images_decoded = encoder_->pixels().loads();
  now.images_loading = encoder_->pixels().waiting();
  now.pixel_bytes = encoder_->pixels().bytes();
  now.images_waiting = static_cast<std::int64_t>(encoder_->lent().size());
  const std::lock_guard lock(mutex_);
  published_ = now;
}

}  // namespace saccade
