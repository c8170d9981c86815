#include "serve/image_sizes/image_sizer.h"

#include <algorithm>
#include <set>
#include <utility>

namespace saccade::serve {
namespace {

constexpr std::size_t kMaxRecent = 1u << 16;  // images
constexpr double kNewPrompt = 0.1;            // weight of a prompt in the mean length
constexpr double kMaxObserved = 20;           // completions that one look at the engine stands for
constexpr int kMaxTileCounts = 64;

Digest clipped_name(const Digest& content, std::string_view salt) {
  Sha256 hash;
  hash.update(std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
  hash.update(salt);
  return hash.finish();
}

}  // namespace

cluster::SizeLadder ladder_of(const Processor& processor, std::int64_t floor) {
  const std::int64_t top = std::max<std::int64_t>(1, processor.shape().max_image_tokens);
  std::set<std::int64_t> counts;  // of large images in several shapes, a tile less each time
  for (const auto& [width, height] : std::initializer_list<std::pair<int, int>>{
           {4096, 4096}, {4096, 3072}, {3072, 4096}, {4096, 2048}, {2048, 4096}, {4096, 1366}}) {
    ImageControls controls;
    controls.max_tokens = top;
    for (int step = 0; step < kMaxTileCounts; ++step) {
      const auto layout = processor.image_layout(width, height, controls);
      if (!layout || layout->tokens > *controls.max_tokens) break;
      if (step == 0 && layout->grid_t == 1) return cluster::SizeLadder::halving(top, floor);
      counts.insert(layout->tokens);
      if (layout->tokens <= 1) break;
      controls.max_tokens = layout->tokens - 1;
    }
  }
  if (counts.empty()) return cluster::SizeLadder::halving(top, floor);
  return cluster::SizeLadder::of_counts({counts.begin(), counts.end()}, floor);
}

ImageSizer::ImageSizer(const ImageSizeSettings& settings, const Processor& processor,
                       const cluster::StageCosts& costs, std::int64_t stored_tokens,
                       const Clock& clock)
    : settings_(settings),
      processor_(processor),
      clock_(clock),
      stored_tokens_(stored_tokens),
      level_(settings.ttft_target, ladder_of(processor, settings.floor), clock),
      costs_(costs),
      rate_(clock, settings.seed_line.second) {}

double ImageSizer::arrived() {
  const std::lock_guard lock(mutex_);
  return rate_.arrived();
}

Result<void> ImageSizer::size(std::span<ImageToSize> images, const SizingRequest& request,
                              SizedRequest& sized) {
  std::vector<std::int64_t> natives;
  for (const ImageToSize& image : images) natives.push_back(image.layout.tokens);
  std::vector<bool> stored(images.size());
  if (settings_.mode == ImageSizeMode::kStatic) {
    TRY_DO(by_budget(images, settings_.static_tokens));
  } else if (settings_.mode == ImageSizeMode::kSeed) {
    TRY_DO(by_budget(images, budget(request.rate)));
  } else if (settings_.mode == ImageSizeMode::kSeedAsPublished) {
    std::vector<ImageToSize> copies(images.begin(), images.end());
    TRY_DO(by_budget(copies, budget(request.rate)));
    for (std::size_t i = 0; i < images.size(); ++i) {
      if (copies[i].layout.tokens < natives[i])
        images[i].copy = LaidOut{std::move(copies[i].layout), std::move(copies[i].controls)};
    }
  }
  const std::lock_guard lock(mutex_);
  forget_done();
  if (settings_.mode == ImageSizeMode::kDynamic) TRY_DO(by_level(images, request, sized, stored));

  std::vector<std::int64_t> encodes;
  std::int64_t prompt = request.text_tokens;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::int64_t tokens = images[i].layout.tokens;
    prompt += tokens;
    encodes.push_back(stored[i] ? 0 : tokens);
    sized.native_tokens += natives[i];
    sized.applied_tokens += tokens;
    count(images[i], natives[i]);
  }
  for (const std::int64_t tokens : request.other_encodes) {
    prompt += tokens;
    encodes.push_back(tokens);
  }
  sized.work = std::make_shared<PendingWork>(std::move(encodes), prompt);
  work_.push_back(sized.work);
  return {};
}

void ImageSizer::submitted(PendingWork& work, std::int64_t prompt_tokens) {
  work.prompt_tokens = prompt_tokens;
  const auto length = static_cast<double>(prompt_tokens);
  const std::lock_guard lock(mutex_);
  mean_prompt_ = mean_prompt_ > 0 ? mean_prompt_ + kNewPrompt * (length - mean_prompt_) : length;
}

// --- the published rule ---

std::int64_t ImageSizer::budget(double rate) const {
  const Nanos target = settings_.ttft_target;
  return cluster::seed_budget(cluster::seed_capacity(target, settings_.seed_line), target, rate);
}

Result<void> ImageSizer::by_budget(std::span<ImageToSize> images, std::int64_t budget) {
  for (ImageToSize& image : images) {
    const auto reduced = cluster::seed_reduced(image.layout.width, image.layout.height, budget);
    if (!reduced) continue;
    TRY(const ImageLayout small,
        processor_.image_layout(reduced->width, reduced->height, image.controls));
    if (small.tokens >= image.layout.tokens) continue;
    TRY_DO(shrink(image, small.tokens));
  }
  return {};
}

void ImageSizer::take(ImageToSize& image, LaidOut laid) {
  image.layout = std::move(laid.layout);
  image.controls = std::move(laid.controls);
}

// The image's own shape, in the family's own steps, as close to `most` tokens as these come. More
// pixels never are fewer tokens.
Result<void> ImageSizer::shrink(ImageToSize& image, std::int64_t most) const {
  ImageControls controls = image.controls;
  std::int64_t fits = 0;
  std::int64_t over = std::int64_t{image.layout.resized_width} * image.layout.resized_height + 1;
  std::optional<LaidOut> best;
  while (over - fits > 1) {
    const std::int64_t middle = fits + (over - fits) / 2;
    controls.max_pixels = middle;
    if (controls.min_pixels) controls.min_pixels = std::min(*controls.min_pixels, middle);
    TRY(ImageLayout laid,
        processor_.image_layout(image.layout.width, image.layout.height, controls));
    if (laid.tokens <= most) {
      fits = middle;
      best = LaidOut{std::move(laid), controls};
    } else {
      over = middle;
    }
  }
  if (!best) {
    TRY(best, lay_out(image, most));  // the least that the family has
  }
  take(image, *std::move(best));
  return {};
}

// --- the level ---

Result<LaidOut> ImageSizer::lay_out(const ImageToSize& image,
                                    std::optional<std::int64_t> max_tokens) const {
  ImageControls controls = image.controls;
  if (max_tokens)
    controls.max_tokens = std::min(*max_tokens, controls.max_tokens.value_or(*max_tokens));
  TRY(ImageLayout laid, processor_.image_layout(image.layout.width, image.layout.height, controls));
  return LaidOut{std::move(laid), std::move(controls)};
}

Result<cluster::SizeAsk> ImageSizer::ask(const ImageToSize& image, const Stored* stored) const {
  cluster::SizeAsk ask;
  ask.native = image.layout.tokens;
  ask.fixed = image.high_detail;
  if (stored != nullptr)
    for (const Bound& bound : stored->sizes) ask.stored.push_back(bound.tokens);
  if (!image.controls.min_pixels || ask.fixed) return ask;
  // The least rung that leaves it as many pixels as its client wants.
  ask.least = ask.native;
  const auto& rungs = level_.ladder().rungs();
  for (auto rung = rungs.rbegin(); rung != rungs.rend() && *rung < ask.native; ++rung) {
    TRY(const LaidOut laid, lay_out(image, *rung));
    if (std::int64_t{laid.layout.resized_width} * laid.layout.resized_height <
        *image.controls.min_pixels)
      continue;
    ask.least = *rung;
    break;
  }
  return ask;
}

Result<void> ImageSizer::by_level(std::span<ImageToSize> images, const SizingRequest& request,
                                  SizedRequest& sized, std::vector<bool>& is_stored) {
  const Nanos now = clock_.now();
  std::vector<cluster::SizeAsk> asks;
  std::vector<Digest> names;
  for (const ImageToSize& image : images) {
    names.push_back(clipped_name(image.content, request.cache_salt));
    TRY(cluster::SizeAsk asked, ask(image, stored(names.back())));
    level_.saw(asked.native);
    asks.push_back(std::move(asked));
  }
  cluster::StageWaits before = waits();
  level_.update(before.sum());
  for (const std::int64_t tokens : request.other_encodes)
    before.encoder += static_cast<Nanos>(costs_.encode_ms(tokens) * 1e6);

  cluster::ClipRequest clip{asks, request.text_tokens, std::max<Nanos>(0, now - request.arrival),
                            request.target.value_or(settings_.ttft_target)};
  for (const std::int64_t tokens : request.other_encodes) clip.text_tokens += tokens;
  const cluster::ClippedSizes sizes =
      cluster::clip_request(level_.ladder(), level_.cap(), costs_, before, clip);
  sized.predicted = sizes.predicted;
  if (!sizes.in_time) {
    if (settings_.refuse_late) {
      ++stats_.refused;
      sized.retry_after = cluster::retry_after_seconds(sizes.late);
      return fail(ErrorCode::kUnavailable,
                  "the first token is predicted after {:.2f} s with the least image sizes, the "
                  "target is {:.2f} s (--ttft-target); try again in {} s",
                  seconds(sizes.predicted), seconds(clip.target), sized.retry_after);
    }
    ++stats_.late;
  }
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::int64_t tokens = sizes.tokens[i];
    Bound bound{tokens, tokens < asks[i].native ? std::optional(tokens) : std::nullopt};
    // Looked up again: remember() may have dropped it for an image before.
    if (const Stored* known = stored(names[i])) {
      for (const Bound& earlier : known->sizes) {
        if (earlier.tokens != tokens) continue;
        bound = earlier;
        is_stored[i] = true;
      }
    }
    if (bound.max_tokens) {
      TRY(LaidOut laid, lay_out(images[i], bound.max_tokens));
      take(images[i], std::move(laid));
      bound.tokens = images[i].layout.tokens;
    }
    remember(names[i], bound);
  }
  return {};
}

const ImageSizer::Stored* ImageSizer::stored(const Digest& key) const {
  const auto found = recent_by_key_.find(key);
  return found == recent_by_key_.end() ? nullptr : &*found->second;
}

void ImageSizer::remember(const Digest& key, const Bound& bound) {
  auto found = recent_by_key_.find(key);
  if (found == recent_by_key_.end()) {
    recent_.push_front({key, {}});
    found = recent_by_key_.emplace(key, recent_.begin()).first;
  } else {
    recent_.splice(recent_.begin(), recent_, found->second);
  }
  Stored& of = *found->second;
  const auto same = [&](const Bound& other) { return other.tokens == bound.tokens; };
  if (std::ranges::none_of(of.sizes, same)) {
    of.sizes.push_back(bound);
    recent_tokens_ += bound.tokens;
  }
  // No more than the engine keeps rows of, the image in hand included.
  while (recent_.size() > 1 && (recent_tokens_ > stored_tokens_ || recent_.size() > kMaxRecent)) {
    for (const Bound& gone : recent_.back().sizes) recent_tokens_ -= gone.tokens;
    recent_by_key_.erase(recent_.back().key);
    recent_.pop_back();
  }
}

// --- accounting ---

// With mutex_ held.
void ImageSizer::forget_done() {
  std::erase_if(work_, [](const std::weak_ptr<PendingWork>& weak) {
    const auto work = weak.lock();
    return !work || work->progress.computed() >= work->prompt_tokens;
  });
}

cluster::StageWaits ImageSizer::waits() const {
  double encode = 0;
  double prefill = 0;
  for (const std::weak_ptr<PendingWork>& weak : work_) {
    const auto work = weak.lock();
    if (!work) continue;
    const std::int64_t prompt = std::max<std::int64_t>(1, work->prompt_tokens);
    const std::int64_t left = prompt - work->progress.computed();
    if (left <= 0) continue;
    for (std::size_t i = 0; i < work->encode_tokens.size(); ++i) {
      if (!work->progress.encoded(i) && work->encode_tokens[i] > 0)
        encode += costs_.encode_ms(work->encode_tokens[i]);
    }
    prefill += costs_.prefill_ms(prompt) * static_cast<double>(left) / static_cast<double>(prompt);
  }
  return {static_cast<Nanos>(encode * 1e6), static_cast<Nanos>(prefill * 1e6)};
}

void ImageSizer::count(const ImageToSize& image, std::int64_t native) {
  const auto& rungs = level_.ladder().rungs();
  const auto over = std::ranges::find_if(
      rungs.rbegin(), rungs.rend(), [&](std::int64_t rung) { return rung >= image.layout.tokens; });
  ++stats_.images_by_rung[over == rungs.rend() ? rungs.front() : *over];
  if (image.layout.tokens < native || image.copy) ++stats_.reduced;
}

void ImageSizer::observe(const EngineStats& stats) {
  const std::lock_guard lock(mutex_);
  const auto observe = [](cluster::SpeedCorrection& speed, double completions, double real,
                          double predicted) {
    for (double i = 0; i < std::min(completions, kMaxObserved); ++i) speed.observe(real, predicted);
  };
  // A look in the middle of an image or a prompt tells nothing yet, and is not lost.
  const auto images = static_cast<double>(stats.images_encoded - seen_.images);
  if (images > 0) {
    const auto rows = static_cast<double>(stats.encoder_tokens_computed - seen_.rows);
    observe(encode_speed_, images, 1e3 * (stats.encoder_busy_seconds - seen_.encoder_busy),
            images * costs_.encode.ms(rows / images));
    seen_.images = stats.images_encoded;
    seen_.rows = stats.encoder_tokens_computed;
    seen_.encoder_busy = stats.encoder_busy_seconds;
  }
  const auto tokens = static_cast<double>(stats.prefill_tokens - seen_.prefill_tokens);
  if (mean_prompt_ > 0 && tokens >= mean_prompt_) {
    const double prompts = tokens / mean_prompt_;
    observe(prefill_speed_, prompts, 1e3 * (stats.prefill_busy_seconds - seen_.prefill_busy),
            prompts * costs_.prefill.ms(mean_prompt_));
    seen_.prefill_tokens = stats.prefill_tokens;
    seen_.prefill_busy = stats.prefill_busy_seconds;
  }
  costs_.encode_factor = encode_speed_.factor();
  costs_.prefill_factor = prefill_speed_.factor();
}

void ImageSizer::tick() {
  const std::lock_guard lock(mutex_);
  forget_done();
  level_.update(waits().sum());
}

ImageSizeStats ImageSizer::stats() const {
  const std::lock_guard lock(mutex_);
  ImageSizeStats stats = stats_;
  stats.level = level_.level();
  stats.cap = level_.cap();
  stats.waits = waits();
  stats.encode_factor = costs_.encode_factor;
  stats.prefill_factor = costs_.prefill_factor;
  return stats;
}

}  // namespace saccade::serve
