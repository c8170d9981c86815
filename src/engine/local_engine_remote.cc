// Images that others may encode: what the exchange says, and what it is told. Images of others that
// are encoded here. And rows that clients have made themselves.
#include <string>
#include <utility>

#include "engine/local_engine.h"
#include "model/given/given_rows.h"

namespace saccade {

bool LocalEngine::wanted(const Digest& key) const {
  return images_.wanted(key) || (remote_ && remote_->compares(key)) ||
         (lent_ && lent_->wanted(key));
}

// False: there was nothing to do.
bool LocalEngine::take_news() {
  if (!pixels_) {
    const std::lock_guard lock(inbox_mutex_);
    pixels_came_ = false;
  }
  remote_->prune([this](const Digest& key) { return images_.wanted(key); });
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
        fail_image(news.key, news.error);
        break;
    }
  }
  return !all.empty();
}

// Images that others want are encoded with this process's own; one that both want, once.
bool LocalEngine::take_lent() {
  lent_->measured(encoder_->cost());
  return lent_->take([this](const Digest& key, const std::shared_ptr<const ImageSource>& source) {
    encode_here(key, source);
  });
}

// Rows that came in images' places. Not as they are wanted: then a plan is half carried out.
bool LocalEngine::take_given() {
  const auto all = std::exchange(given_, {});
  for (const auto& [key, source] : all) {
    const std::string rows = converted(*source->rows(), network_.shape().embedding_dtype);
    publish_host(key, std::as_bytes(std::span(rows)));
  }
  return !all.empty();
}

// Rows of the embeddings' type, one behind the other; read during the call.
void LocalEngine::publish_host(const Digest& key, std::span<const std::byte> bytes) {
  if (!images_.wanted(key)) return;
  const ModelShape& shape = network_.shape();
  const auto width = shape.embedding_width();
  const auto row_bytes = static_cast<std::size_t>(width) * size_of(shape.embedding_dtype);
  const auto count = static_cast<std::int64_t>(bytes.size() / row_bytes);
  // Host memory that is only read.
  const View rows(const_cast<std::byte*>(bytes.data()), shape.embedding_dtype, count, width);
  Stream& stream = device_.lane(Lane::kEncode);
  stream.wait(step_stream().record());
  Result<Buffer> staging = device_.allocate(bytes.size());
  if (!staging) return fail_image(key, {ErrorCode::kUnavailable, staging.error().message, {}});
  const View there = staging->view(shape.embedding_dtype, count, width);
  stream.upload(rows, there);
  write_rows(stream, key, there);
  step_stream().wait(stream.record());
  stream.synchronize();  // the staging ends here
  if (!encoder_ || !encoder_->running()) stream.retire();
}

// An encode of this process has failed; another may yet have the rows.
void LocalEngine::failed_here(const Digest& key, const Error& error) {
  if (remote_ && remote_->compares(key)) return remote_->compared(key, {});
  lent_->fail(key, error);
  if (!remote_ || !remote_->failed_here(key, error)) fail_image(key, error);
}

}  // namespace saccade
