// A PD's images, and how its settings become sizes.
#include <algorithm>
#include <utility>

#include "simulate/pd_machine.h"

namespace saccade::simulate {
namespace {

constexpr std::int64_t kPageRows = 16;        // as the engine's set-up
constexpr double kStageShareOfTarget = 0.25;  // likewise
constexpr double kPixelsOfMegapixel = 1e6;

Result<void> at_least_one(std::int64_t value, std::string_view name) {
  if (value >= 1) return {};
  return saccade::fail(ErrorCode::kInvalid, "{} is {}, at least 1 is needed", name, value);
}

}  // namespace

Result<void> PdMachine::set_up(const ServedModel& model, Device& device, PdImages* images) {
  EngineSettings& engine = settings_.engine;
  TRY_DO(at_least_one(engine.max_batched_tokens, "--max-num-batched-tokens"));
  TRY_DO(at_least_one(engine.max_sequences, "--max-num-seqs"));
  TRY_DO(at_least_one(engine.block_size, "--block-size"));
  engine.max_sequences = std::min(engine.max_sequences, engine.max_batched_tokens);
  TRY(const EncoderCache mode, parse_encoder_cache(engine.encoder_cache));
  KvSettings kv;
  TRY(kv.plan.policy, parse_kv_policy(engine.kv_policy));
  kv.plan.block_tokens = engine.block_size;
  kv.plan.max_sequences = kv.max_sequences = engine.max_sequences;
  kv.prefix_caching = engine.prefix_caching;
  kv.pool_bytes = static_cast<std::int64_t>(engine.kv_cache_bytes);
  TRY(kv_, KvAllocator::create(model.layers, kv));
  const std::int64_t asked = engine.max_model_len;
  const std::int64_t held = kv_->longest_sequence(engine.max_batched_tokens, model.max_position);
  if (asked > held)
    return saccade::fail(ErrorCode::kTooLarge,
                         "--max-model-len {} is over the {} tokens that a KV cache of {} bytes and "
                         "the model hold of one request",
                         asked, held, kv.pool_bytes);
  if (held < 2)
    return saccade::fail(ErrorCode::kTooLarge,
                         "a KV cache of {} bytes holds {} tokens of one request (--kv-cache-bytes)",
                         kv.pool_bytes, held);
  engine.max_model_len = asked > 0 ? asked : held;

  const ModelShape& shape = model.processor->shape();
  const std::int64_t page_bytes = kPageRows * model.row_bytes;
  const auto store_bytes =
      mode == EncoderCache::kOverlay ? 0 : static_cast<std::int64_t>(engine.encoder_cache_bytes);
  if (shape.has_vision) {
    limits_.max_rows = std::min(shape.max_image_tokens, engine.max_model_len);
    if (mode != EncoderCache::kOverlay)
      limits_.max_rows = std::min(limits_.max_rows, store_bytes / page_bytes * kPageRows);
    if (limits_.max_rows < 1)
      return saccade::fail(ErrorCode::kTooLarge,
                           "--encoder-cache-bytes {} hold no {} rows of {} bytes",
                           engine.encoder_cache_bytes, kPageRows, model.row_bytes);
    limits_.max_patches =
        std::max(shape.max_image_patches, std::int64_t{4} * shape.max_image_tokens);
    limits_.batch_patches = engine.encoder_batch_patches;
    limits_.stage_seconds = engine.tpot_target_ms / 1e3 * kStageShareOfTarget;
  }
  images_ = std::make_unique<ImagePlanner>(mode, store_bytes, page_bytes, model.row_bytes);
  SchedulerSettings scheduler;
  scheduler.max_batched_tokens = engine.max_batched_tokens;
  scheduler.max_sequences = engine.max_sequences;
  scheduler.long_prefill_threshold = engine.long_prefill_threshold;
  TRY(scheduler.policy, parse_scheduling_policy(engine.scheduling_policy));
  scheduler_ = std::make_unique<Scheduler>(scheduler, *kv_, *images_);
  if (!shape.has_vision) return {};

  if (images != nullptr) {
    exchange_ = images;
    exchange_->set_wake([this] { wake(); });
    remote_ = std::make_unique<RemoteImages>(*images);
  }
  if (!settings_.tower) return {};
  TRY(encoder_, EncoderQueue::create(
                    tower_, device, limits_, clock_,
                    [this](const Digest& key, View) { made_.push_back(key); },
                    [](const Digest&, const Error&) {},
                    [this](const Digest& key) { return images_->wanted(key); }));
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

void PdMachine::want_image(const EncodeWish& wish) {
  const SequenceImage& image = wish.sequence->images[static_cast<std::size_t>(wish.image)];
  const RequestImage& what =
      (*wish.sequence->request.images)[static_cast<std::size_t>(image.index)];
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
  for (Sequence* sequence : scheduler_->running()) {
    for (SequenceImage& image : sequence->images)
      if (image.state == ImageState::kEncoding && image.key == key) images_->set_overlaid(image);
  }
}

// There will be no rows under this key: the answer of all who wait for them.
void PdMachine::fail_image(const Digest& key, const Error& error) {
  std::vector<Live*> waiting;
  for (auto& [id, live] : lives_) {
    const bool waits = std::ranges::any_of(live->images, [&](const SequenceImage& image) {
      return image.key == key && image.state == ImageState::kEncoding;
    });
    if (waits) waiting.push_back(live.get());
  }
  std::ranges::sort(waiting, {}, [](const Live* live) { return live->request.id; });
  for (Live* live : waiting) {
    scheduler_->finish(*live);
    finish(*live, error);
  }
}

void PdMachine::observe(const EncoderQueue::Event& event) {
  if (event.end > 0 && remote_) remote_->measured(encoder_->cost());
  for (auto& [id, live] : lives_) {
    for (const SequenceImage& image : live->images) {
      if (std::ranges::find(event.keys, image.key) == event.keys.end()) continue;
      if (live->times.encode_start == 0) live->times.encode_start = event.begin;
      if (event.end > 0) live->times.encode_end = event.end;
    }
    if (event.end > 0) note_progress(*live);
  }
}

void PdMachine::note_progress(const Sequence& sequence) {
  RequestProgress* const to = sequence.request.progress.get();
  if (to == nullptr) return;
  const std::int64_t computed = std::min(sequence.computed(), sequence.prompt_tokens());
  to->set_computed(computed);
  for (const SequenceImage& image : sequence.images) {
    const auto index = static_cast<std::size_t>(image.index);
    if (index < to->images() && (image.end <= computed || images_->ready(image)))
      to->set_encoded(index);
  }
}

}  // namespace saccade::simulate
