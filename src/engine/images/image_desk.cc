#include "engine/images/image_desk.h"

#include <algorithm>
#include <string>

#include "model/given/given_rows.h"

namespace saccade {

ImageDesk::ImageDesk(EngineParts& parts, Network& network, Device& device, const Clock& clock,
                     ImagePlanner& planner, const Scheduler& scheduler)
    : parts_(parts),
      network_(network),
      device_(device),
      clock_(clock),
      planner_(planner),
      scheduler_(scheduler) {}

Result<void> ImageDesk::open(ImageExchange* exchange, bool tower, Hooks hooks) {
  hooks_ = std::move(hooks);
  if (!network_.shape().has_vision) return {};
  if (exchange != nullptr) {
    remote_ = std::make_unique<RemoteImages>(*exchange);
    exchange->set_wake(hooks_.wake);
  }
  if (!tower) return {};
  TRY(encoder_,
      EncoderQueue::create(
          network_, device_, parts_.encoder, clock_,
          {.publish = [this](const Digest& key, View rows) { publish(key, rows); },
           .failed = [this](const Digest& key, const Error& error) { failed_here(key, error); },
           .wanted = [this](const Digest& key) { return wanted(key); }}));
  pixels_ = std::make_unique<PixelLoader>(parts_.settings.pixel_threads,
                                          parts_.settings.max_pixel_bytes, hooks_.wake);
  lent_ = std::make_unique<LentImages>(device_, clock_, parts_.encoder.max_rows, hooks_.wake);
  encoder_->set_observer([this](const EncoderQueue::Event& event) { batch(event); });
  return {};
}

void ImageDesk::close(const Error& error) {
  if (lent_) lent_->close(error);
}

void ImageDesk::count(EngineStats& to) const {
  if (!encoder_) return;
  to.encoder_queue_images = encoder_->waiting();
  to.encoder_runs = encoder_->stats().runs;
  to.encoder_busy_seconds = encoder_->stats().busy_seconds;
  to.images_encoded = encoder_->stats().images;
  to.images_decoded = pixels_->loads();
  to.images_loading = pixels_->waiting();
  to.pixel_bytes = pixels_->bytes();
  to.encoder_tokens_computed = encoder_->stats().rows;
}

// --- where an image's rows are to come from ---

void ImageDesk::want(const EncodeWish& wish) {
  const SequenceImage& image = (*wish.sequence->images)[static_cast<std::size_t>(wish.image)];
  const RequestImage& what =
      (*wish.sequence->request.images)[static_cast<std::size_t>(image.index)];
  if (what.source->rows() != nullptr) {
    given_.emplace_back(image.key, what.source);
  } else if (remote_) {
    remote_->want(image, what);
  } else {
    encode_here(image.key, what.source, parts_.settings.fair() ? wish.sequence->request.client : 0);
  }
}

bool ImageDesk::wanted(const Digest& key) const {
  return planner_.wanted(key) || (remote_ && remote_->compares(key)) ||
         (lent_ && lent_->wanted(key));
}

EncodeOrigin ImageDesk::origin_of(const Digest& key, ClientId client) const {
  const bool lent = lent_ && lent_->wanted(key) && !planner_.wanted(key);
  return lent ? EncodeOrigin{.others = true, .client = 0}
              : EncodeOrigin{.others = false, .client = client};
}

void ImageDesk::encode_here(const Digest& key, const std::shared_ptr<const ImageSource>& source,
                            ClientId client) {
  if (auto pixels = source->ready()) {
    encoder_->push(key, std::move(pixels), origin_of(key, client));
  } else if (!encoder_->contains(key)) {
    pixels_->push(key, source, client);
  }
}

// --- what has come ---

bool ImageDesk::take() {
  bool busy = pixels_ && take_pixels();
  busy = (lent_ && take_lent()) || busy;
  busy = (remote_ && take_news()) || busy;
  return take_given() || busy;
}

// What has been decoded goes to the encoder.
bool ImageDesk::take_pixels() {
  std::vector<PixelLoader::Loaded> loaded =
      pixels_->take([this](const Digest& key) { return wanted(key); });
  for (PixelLoader::Loaded& one : loaded) {
    if (!wanted(one.key)) continue;
    if (one.image) {
      encoder_->push(one.key, *std::move(one.image), origin_of(one.key, one.client));
    } else if (one.image.error().code != ErrorCode::kCancelled) {
      failed_here(one.key, one.image.error());
    }
  }
  return !loaded.empty();
}

bool ImageDesk::take_lent() {
  lent_->measured(encoder_->cost());
  return lent_->take([this](const Digest& key, const std::shared_ptr<const ImageSource>& source) {
    encode_here(key, source);
  });
}

bool ImageDesk::take_news() {
  remote_->prune([this](const Digest& key) { return planner_.wanted(key); });
  const std::vector<ImageNews> all = remote_->take();
  for (const ImageNews& news : all) {
    switch (news.kind) {
      case ImageNews::Kind::kEncodeHere:
        encode_here(news.key, remote_->source(news.key));
        break;
      case ImageNews::Kind::kRows:
        publish_host(news.key, news.rows);
        break;
      case ImageNews::Kind::kCompare:
        encode_here(news.key, news.source);
        break;
      case ImageNews::Kind::kFailed:
        hooks_.failed(news.key, news.error);
        break;
    }
  }
  return !all.empty();
}

// Rows that came in images' places. Not as they are wanted: then a plan is half carried out.
bool ImageDesk::take_given() {
  const auto all = std::exchange(given_, {});
  for (const auto& [key, source] : all) {
    const std::string rows = converted(*source->rows(), network_.shape().embedding_dtype);
    publish_host(key, std::as_bytes(std::span(rows)));
  }
  return !all.empty();
}

// --- the encoder here ---

bool ImageDesk::encode(StepPacer& pacer, const std::function<bool()>& interrupted) {
  if (!encoder_) return false;
  bool busy = encoder_->prune();
  while (!encoder_->idle() && !encoder_->waits() &&
         pacer.another_stage(encoder_->stage_seconds())) {
    const Nanos begin = clock_.now();
    const bool complete = encoder_->advance(pacer.encoder_room());
    pacer.staged(seconds(clock_.now() - begin));
    busy = true;
    if (complete || interrupted()) break;
  }
  return busy || !encoder_->idle();
}

void ImageDesk::batch(const EncoderQueue::Event& event) {
  if (event.end == 0) {
    lent_->begun(event.begin);
  } else if (remote_) {
    remote_->measured(encoder_->cost());
  }
  hooks_.encoded(event);
}

// Another may yet have the rows.
void ImageDesk::failed_here(const Digest& key, const Error& error) {
  if (remote_ && remote_->compares(key)) return remote_->compared(key, {});
  lent_->fail(key, error);
  if (!remote_ || !remote_->failed_here(key, error)) hooks_.failed(key, error);
}

// --- rows, and where the model reads them ---

void ImageDesk::publish(const Digest& key, View rows) {
  if (remote_ && remote_->compares(key)) return remote_->compared(key, rows);
  lent_->publish(key, rows);
  if (!planner_.wanted(key)) return;
  if (remote_) remote_->made_here(key, rows);
  // A step in flight may still read what the pages held, and the next one reads what they get.
  Stream& stream = device_.lane(Lane::kEncode);
  stream.wait(step_stream().record());
  write(stream, key, rows);
  step_stream().wait(stream.record());
}

// Rows of the embeddings' type, one behind the other; read during the call.
void ImageDesk::publish_host(const Digest& key, std::span<const std::byte> bytes) {
  if (!planner_.wanted(key)) return;
  const ModelShape& shape = network_.shape();
  const auto width = shape.embedding_width();
  const auto row_bytes = static_cast<std::size_t>(width) * size_of(shape.embedding_dtype);
  const auto count = static_cast<std::int64_t>(bytes.size() / row_bytes);
  // Host memory that is only read.
  const View rows(const_cast<std::byte*>(bytes.data()), shape.embedding_dtype, count, width);
  Stream& stream = device_.lane(Lane::kEncode);
  stream.wait(step_stream().record());
  Result<Buffer> staging = device_.allocate(bytes.size());
  if (!staging) return hooks_.failed(key, {ErrorCode::kUnavailable, staging.error().message, {}});
  const View there = staging->view(shape.embedding_dtype, count, width);
  stream.upload(rows, there);
  write(stream, key, there);
  step_stream().wait(stream.record());
  stream.synchronize();  // the staging ends here
  if (!encoder_ || !encoder_->running()) stream.retire();
}

void ImageDesk::write(Stream& stream, const Digest& key, View rows) {
  if (planner_.mode() != EncoderCache::kOverlay) {
    parts_.arena->write(stream, planner_.store().pages(key), rows);
    planner_.set_ready(key);
    return;
  }
  for (Sequence* sequence : scheduler_.running()) {
    for (const SequenceImage& image : *sequence->images) {
      if (image.state == ImageState::kEncoding && image.key == key)
        overlay(stream, *sequence, image, rows);
    }
    planner_.set_overlaid(*sequence, key);
  }
}

void ImageDesk::overlay(Stream& stream, const Sequence& sequence, const SequenceImage& image,
                        View rows) {
  for (const ImageSpan& span : sequence.request.prompt->images) {
    if (span.index != image.index) continue;
    // Tokens that are computed have their keys and values in these slots.
    const std::int64_t begin = std::max(span.begin, sequence.computed());
    const std::int64_t end = span.begin + span.tokens;
    if (begin >= end) continue;
    const std::int64_t first = span.first_row + begin - span.begin;
    parts_.pool->write_embeddings(stream, sequence.kv, begin,
                                  rows.row_range(first, first + end - begin));
  }
}

}  // namespace saccade
