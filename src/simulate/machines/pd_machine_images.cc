// A PD's parts, and its images.
#include <algorithm>

#include "engine/engine_plan.h"
#include "simulate/machines/pd_machine.h"

namespace saccade::simulate {
namespace {

constexpr double kPixelsOfMegapixel = 1e6;

}  // namespace

Result<void> PdMachine::set_up(const ServedModel& model, Device& device, PdImages* images) {
  const ModelShape& shape = model.shape;
  TRY(EnginePlan plan, plan_engine(settings_.engine));
  TRY(kv_, KvAllocator::create(model.layers, plan.cache));
  TRY_DO(plan_lengths(plan, shape, *kv_));
  if (shape.has_vision) TRY_DO(plan_images(plan, shape));
  if (shape.cross_attends() && plan.settings.encoder_cache == EncoderCache::kOverlay)
    return saccade::fail(ErrorCode::kUnsupported,
                         "encoder_cache overlay: {} attends to images across", shape.family);
  settings_.engine = plan.settings;
  limits_ = plan.encoder;
  const std::int64_t row_bytes = embedding_row_bytes(shape);
  const auto store_bytes = plan.settings.encoder_cache == EncoderCache::kOverlay
                               ? 0
                               : static_cast<std::int64_t>(plan.settings.encoder_cache_bytes);
  images_ = std::make_unique<ImagePlanner>(plan.settings.encoder_cache, store_bytes,
                                           kEmbeddingPageRows * row_bytes, row_bytes);
  scheduler_ = std::make_unique<Scheduler>(settings_.engine, *kv_, *images_);
  if (!shape.has_vision) return {};

  if (images != nullptr) {
    exchange_ = images;
    exchange_->set_wake([this] { wake(); });
    remote_ = std::make_unique<RemoteImages>(*images);
  }
  if (!settings_.tower) return {};
  TRY(encoder_,
      EncoderQueue::create(tower_, device, limits_, clock_,
                           {.publish = [this](const Digest& key, View) { made_.push_back(key); },
                            .failed = [](const Digest&, const Error&) {},
                            .wanted = [this](const Digest& key) { return images_->wanted(key); }}));
  encoder_->set_observer([this](const EncoderQueue::Event& event) { seen_.push_back(event); });
  return {};
}

bool PdMachine::take_news() {
  remote_->prune([this](const Digest& key) { return images_->wanted(key); });
  const std::vector<ImageNews> all = remote_->take();
  for (const ImageNews& news : all) {
    switch (news.kind) {
      case ImageNews::Kind::kEncodeHere:
        encode_here(news.key, remote_->source(news.key));
        break;
      case ImageNews::Kind::kRows:
        publish(news.key, now_);
        break;
      case ImageNews::Kind::kFailed:
        fail_image(news.key, news.error);
        break;
      case ImageNews::Kind::kCompare:
        break;
    }
  }
  return !all.empty();
}

void PdMachine::want_image(const EncodeRequest& encode) {
  const SequenceImage& image = (*encode.sequence->images)[static_cast<std::size_t>(encode.image)];
  const RequestImage& what =
      (*encode.sequence->request.images)[static_cast<std::size_t>(image.index)];
  if (remote_) {
    remote_->want(image, what);
  } else {
    encode_here(image.key, what.source);
  }
}

// Decoded and resized on threads of their own, then queued.
void PdMachine::encode_here(const Digest& key, const std::shared_ptr<const ImageSource>& source) {
  if (encoder_->contains(key) || loading_.contains(key)) return;
  const auto& image = static_cast<const TimedImage&>(*source).image();
  if (settings_.costs.pixels <= 0) return encoder_->push(key, image);
  const auto thread = std::ranges::min_element(pixel_threads_);
  const double megapixels = static_cast<double>(image->layout.width) *
                            static_cast<double>(image->layout.height) / kPixelsOfMegapixel;
  *thread = std::max(*thread, now_) + noise_.of(settings_.costs.pixels * megapixels);
  loading_[key] = true;
  loop_.timers().start(*thread, [this, key, image] {
    loading_.erase(key);
    pixels_.emplace_back(key, image);
    wake();
  });
}

// Rows of this key are there.
void PdMachine::publish(const Digest& key, Nanos) {
  if (!images_->wanted(key)) return;
  if (remote_) remote_->made_here(key, {});
  if (images_->mode() != EncoderCache::kOverlay) return images_->set_ready(key);
  for (Sequence* sequence : scheduler_->running()) images_->set_overlaid(*sequence, key);
}

// There will be no rows under this key: the answer of all who wait for them.
void PdMachine::fail_image(const Digest& key, const Error& error) {
  std::vector<ActiveSequence*> waiting;
  for (auto& [id, sequence] : active_) {
    const bool waits = std::ranges::any_of(*sequence->images, [&](const SequenceImage& image) {
      return image.key == key && images_->state(image) == ImageState::kEncoding;
    });
    if (waits) waiting.push_back(sequence.get());
  }
  std::ranges::sort(waiting, {},
                    [](const ActiveSequence* sequence) { return sequence->request.id; });
  for (ActiveSequence* sequence : waiting) {
    scheduler_->finish(*sequence);
    finish(*sequence, error);
  }
}

void PdMachine::observe(const EncoderQueue::Event& event) {
  if (event.end > 0 && remote_) remote_->measured(encoder_->cost());
  for (auto& [id, sequence] : active_) {
    for (const SequenceImage& image : *sequence->images) {
      if (std::ranges::find(event.keys, image.key) == event.keys.end()) continue;
      if (sequence->times.encode_start == 0) sequence->times.encode_start = event.begin;
      if (event.end > 0) sequence->times.encode_end = event.end;
    }
    if (event.end > 0) note_progress(*sequence);
  }
}

void PdMachine::note_progress(const Sequence& sequence) {
  RequestProgress* const to = sequence.request.progress.get();
  if (to == nullptr) return;
  const std::int64_t computed = std::min(sequence.computed(), sequence.prompt_tokens());
  to->set_computed(computed);
  for (const SequenceImage& image : *sequence.images) {
    const auto index = static_cast<std::size_t>(image.index);
    if (index < to->images() && (image.end <= computed || images_->ready(image)))
      to->set_encoded(index);
  }
}

}  // namespace saccade::simulate
