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
  const EngineSettings& settings = parts_.settings;
  TRY(encoder_,
      ImageEncoder::create(
          network_, device_, clock_,
          {parts_.encoder, settings.pixel_threads, settings.max_pixel_bytes},
          {.wake = hooks_.wake,
           .publish = [this](const Digest& key, View rows) { publish(key, rows); },
           .failed = [this](const Digest& key, const Error& error) { failed_here(key, error); },
           .wanted =
               [this](const Digest& key) {
                 return planner_.wanted(key) || (remote_ && remote_->compares(key));
               },
           .batch =
               [this](const EncoderQueue::Event& event) {
                 if (event.end != 0 && remote_) remote_->measured(encoder_->queue().cost());
                 hooks_.encoded(event);
               }}));
  return {};
}

void ImageDesk::close(const Error& error) {
  if (encoder_) encoder_->lent().close(error);
}

void ImageDesk::count(EngineStats& to) const {
  if (!encoder_) return;
  const EncoderStats& stats = encoder_->queue().stats();
  to.encoder_queue_images = encoder_->queue().waiting();
  to.encoder_runs = stats.runs;
  to.encoder_busy_seconds = stats.busy_seconds;
  to.images_encoded = stats.images;
  to.images_decoded = encoder_->pixels().loads();
  to.images_loading = encoder_->pixels().waiting();
  to.pixel_bytes = encoder_->pixels().bytes();
  to.encoder_tokens_computed = stats.rows;
}

// --- where an image's rows are to come from ---

void ImageDesk::want(const EncodeRequest& encode) {
  const SequenceImage& image = (*encode.sequence->images)[static_cast<std::size_t>(encode.image)];
  const RequestImage& what =
      (*encode.sequence->request.images)[static_cast<std::size_t>(image.index)];
  if (what.source->rows() != nullptr) {
    given_.emplace_back(image.key, what.source);
  } else if (remote_) {
    remote_->want(image, what);
  } else {
    encoder_->push(image.key, what.source,
                   parts_.settings.fair() ? encode.sequence->request.client : 0);
  }
}

// --- what has come ---

bool ImageDesk::take() {
  bool busy = encoder_ && encoder_->take();
  busy = (remote_ && take_news()) || busy;
  return take_given() || busy;
}

bool ImageDesk::take_news() {
  remote_->prune([this](const Digest& key) { return planner_.wanted(key); });
  const std::vector<ImageNews> all = remote_->take();
  for (const ImageNews& news : all) {
    switch (news.kind) {
      case ImageNews::Kind::kEncodeHere:
        encoder_->push(news.key, remote_->source(news.key));
        break;
      case ImageNews::Kind::kRows:
        publish_host(news.key, news.rows);
        break;
      case ImageNews::Kind::kCompare:
        encoder_->push(news.key, news.source);
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
  EncoderQueue& queue = encoder_->queue();
  bool busy = queue.prune();
  while (!queue.idle() && !queue.waits() && pacer.another_stage(queue.stage_seconds())) {
    const Nanos begin = clock_.now();
    const bool complete = queue.advance(pacer.encoder_room());
    pacer.staged(seconds(clock_.now() - begin));
    busy = true;
    if (complete || interrupted()) break;
  }
  return busy || !queue.idle();
}

// Another may yet have the rows.
void ImageDesk::failed_here(const Digest& key, const Error& error) {
  if (remote_ && remote_->compares(key)) return remote_->compared(key, {});
  if (!remote_ || !remote_->failed_here(key, error)) hooks_.failed(key, error);
}

// --- rows, and where the model reads them ---

void ImageDesk::publish(const Digest& key, View rows) {
  if (remote_ && remote_->compares(key)) return remote_->compared(key, rows);
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
  if (!encoder_ || !encoder_->queue().running()) stream.retire();
}

void ImageDesk::write(Stream& stream, const Digest& key, View rows) {
  if (planner_.mode() != EncoderCache::kOverlay) {
    parts_.arena->write(stream, planner_.store().pages(key), rows);
    planner_.set_ready(key);
    return;
  }
  for (Sequence* sequence : scheduler_.running()) {
    for (const SequenceImage& image : *sequence->images) {
      if (image.overlaid == ImageState::kEncoding && image.key == key)
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
