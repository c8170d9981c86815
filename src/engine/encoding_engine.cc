#include "engine/encoding_engine.h"

#include <algorithm>
#include <utility>

namespace saccade {

Result<std::unique_ptr<EncodingEngine>> EncodingEngine::create(const EncodingSettings& settings,
                                                               Network& network, Device& device,
                                                               const Clock& clock) {
  auto engine =
      std::unique_ptr<EncodingEngine>(new EncodingEngine(settings, network, device, clock));
  EncodingEngine* const self = engine.get();
  Capacity capacity;
  capacity.rows = 1;
  capacity.sequences = 1;
  capacity.logit_rows = 1;
  capacity.image_patches = self->limits_.max_patches;
  capacity.length = 1;
  TRY_DO(network.reserve(device, capacity));
  TRY(engine->encoder_,
      EncoderQueue::create(
          network, device, self->limits_, clock,
          {.publish = [self](const Digest& key, View rows) { self->lent_->publish(key, rows); },
           .failed = [self](const Digest& key,
                            const Error& error) { self->lent_->fail(key, error); },
           .wanted = [self](const Digest& key) { return self->lent_->wanted(key); }}));
  engine->encoder_->set_observer([self](const EncoderQueue::Event& event) {
    if (event.end == 0) self->lent_->begun(event.begin);
  });
  return engine;
}

EncodingEngine::EncodingEngine(const EncodingSettings& settings, Network& network, Device& device,
                               const Clock& clock)
    : network_(network), device_(device), clock_(clock) {
  const std::int64_t max_rows = network.shape().max_image_tokens;
  limits_.max_rows = settings.max_rows > 0 ? std::min(settings.max_rows, max_rows) : max_rows;
  // In proportion, rounded up, as a server that encodes its own has it.
  limits_.max_patches =
      max_rows == 0
          ? 0
          : (network.shape().max_image_patches * limits_.max_rows + max_rows - 1) / max_rows;
  limits_.batch_patches = settings.batch_patches;
  lent_ =
      std::make_unique<LentImages>(device, clock, limits_.max_rows, [this] { events_.notify(); });
  pixels_ = std::make_unique<PixelLoader>(settings.pixel_threads, settings.max_pixel_bytes,
                                          [this] { events_.notify(); });
}

EncodingEngine::~EncodingEngine() = default;

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
    lent_->close({ErrorCode::kUnavailable, "the encoder has stopped", {}});
    throw;
  }
  lent_->close({ErrorCode::kCancelled, "the encoder has stopped", {}});
}

bool EncodingEngine::step() {
  const std::uint64_t seen = events_.count();
  bool busy =
      lent_->take([this](const Digest& key, const std::shared_ptr<const ImageSource>& source) {
        pixels_->push(key, source);
      });
  const auto wanted = [this](const Digest& key) { return lent_->wanted(key); };
  for (PixelLoader::Loaded& one : pixels_->take(wanted)) {
    busy = true;
    if (!wanted(one.key)) continue;
    if (one.image) {
      encoder_->push(one.key, *std::move(one.image));
    } else if (one.image.error().code != ErrorCode::kCancelled) {
      lent_->fail(one.key, one.image.error());
    }
  }
  busy = encoder_->prune() || busy;
  if (!encoder_->idle()) {
    encoder_->advance();
    busy = true;
    wait_for_encoder(seen);
  }
  publish_stats();
  return busy;
}

// For what the device makes: until it is there, or something comes.
void EncodingEngine::wait_for_encoder(std::uint64_t seen) {
  constexpr std::chrono::microseconds kLook{50};
  while (encoder_->waits()) {
    if (events_.wait_for(seen, kLook)) return;
  }
}

void EncodingEngine::publish_stats() {
  EncodingStats now;
  now.encoder = encoder_->stats();
  now.images_decoded = pixels_->loads();
  now.images_loading = pixels_->waiting();
  now.pixel_bytes = pixels_->bytes();
  now.images_waiting = static_cast<std::int64_t>(lent_->size());
  lent_->measured(encoder_->cost());
  const std::lock_guard lock(mutex_);
  published_ = now;
}

}  // namespace saccade
