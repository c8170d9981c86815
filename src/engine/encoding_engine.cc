#include "engine/encoding_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/readback.h"

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
          [self](const Digest& key, View rows) { self->publish(key, rows); },
          [self](const Digest& key, const Error& error) { self->end(key, fail(error)); },
          [self](const Digest& key) { return self->jobs_.contains(key); }));
  engine->encoder_->set_observer([self](const EncoderQueue::Event& event) {
    if (event.end == 0) self->run_begun_ = event.begin;
  });
  return engine;
}

EncodingEngine::EncodingEngine(const EncodingSettings& settings, Network& network, Device& device,
                               const Clock& clock)
    : network_(network), device_(device), clock_(clock) {
  const std::int64_t most_rows = network.shape().max_image_tokens;
  limits_.max_rows = settings.max_rows > 0 ? std::min(settings.max_rows, most_rows) : most_rows;
  // In proportion, rounded up, as a server that encodes its own has it.
  limits_.max_patches =
      most_rows == 0
          ? 0
          : (network.shape().max_image_patches * limits_.max_rows + most_rows - 1) / most_rows;
  limits_.batch_patches = settings.batch_patches;
  pixels_ = std::make_unique<PixelLoader>(settings.pixel_threads, settings.max_pixel_bytes, [this] {
    {
      const std::lock_guard lock(mutex_);
      pixels_came_ = true;
    }
    wake_.notify_one();
  });
}

EncodingEngine::~EncodingEngine() = default;

// --- any thread ---

void EncodingEngine::encode(const Digest& key, std::shared_ptr<const ImageSource> source,
                            Done done) {
  {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back({key, std::move(source), std::move(done), clock_.now()});
  }
  wake_.notify_one();
}

void EncodingEngine::let_go(const Digest& key) {
  {
    const std::lock_guard lock(mutex_);
    left_.push_back(key);
  }
  wake_.notify_one();
}

EncodingStats EncodingEngine::stats() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

void EncodingEngine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
}

// --- the engine thread ---

void EncodingEngine::run() {
  while (!stopping_) {
    if (step()) continue;
    std::unique_lock lock(mutex_);
    wake_.wait(lock,
               [&] { return stopping_ || !arrivals_.empty() || !left_.empty() || pixels_came_; });
  }
  drain();
  while (!jobs_.empty()) {
    const Digest key = jobs_.begin()->first;
    end(key, fail(ErrorCode::kCancelled, "the encoder has stopped"));
  }
}

bool EncodingEngine::drain() {
  std::vector<Job> arrivals;
  std::vector<Digest> left;
  {
    const std::lock_guard lock(mutex_);
    arrivals.swap(arrivals_);
    left.swap(left_);
    pixels_came_ = false;
  }
  for (Job& arrival : arrivals) {
    const Digest key = arrival.key;
    const auto source = arrival.source;
    jobs_.insert_or_assign(key, std::move(arrival));
    pixels_->push(key, source);
  }
  // What has been let go is told so at once; its stages end at the next prune().
  for (const Digest& key : left) {
    if (jobs_.contains(key)) end(key, fail(ErrorCode::kCancelled, "nobody waits for it any more"));
  }
  return !arrivals.empty() || !left.empty();
}

bool EncodingEngine::step() {
  bool busy = drain();
  const auto wanted = [this](const Digest& key) { return jobs_.contains(key); };
  for (PixelLoader::Loaded& one : pixels_->take(wanted)) {
    busy = true;
    if (!wanted(one.key)) continue;
    if (one.image) {
      encoder_->push(one.key, *std::move(one.image));
    } else {
      end(one.key, fail(one.image.error()));
    }
  }
  busy = encoder_->prune() || busy;
  if (!encoder_->idle()) {
    encoder_->advance();
    busy = true;
  }
  publish_stats();
  return busy;
}

void EncodingEngine::publish(const Digest& key, View rows) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  const Result<View> host = readable(device_.lane(Lane::kEncode), rows, staging_);
  if (!host) return end(key, fail(host.error()));
  const Nanos now = clock_.now();
  EncodedImage image;
  image.queued = std::max<Nanos>(0, run_begun_ - found->second.since);
  image.encoded = now - run_begun_;
  const auto row_bytes = static_cast<std::size_t>(host->cols()) * size_of(host->dtype());
  image.rows.resize(static_cast<std::size_t>(host->rows()) * row_bytes);
  for (std::int64_t row = 0; row < host->rows(); ++row) {
    std::memcpy(image.rows.data() + static_cast<std::size_t>(row) * row_bytes,
                host->data() + static_cast<std::size_t>(row) * host->row_bytes(), row_bytes);
  }
  end(key, std::move(image));
}

void EncodingEngine::end(const Digest& key, Result<EncodedImage> image) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  const Done done = std::move(found->second.done);
  jobs_.erase(found);
  done(key, std::move(image));
}

void EncodingEngine::publish_stats() {
  EncodingStats now;
  now.encoder = encoder_->stats();
  now.images_decoded = pixels_->loads();
  now.images_loading = pixels_->waiting();
  now.pixel_bytes = pixels_->bytes();
  now.images_waiting = static_cast<std::int64_t>(jobs_.size());
  now.cost = encoder_->cost();
  const std::lock_guard lock(mutex_);
  published_ = now;
}

}  // namespace saccade
