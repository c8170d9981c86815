// Images that others may encode: what the exchange says, and what it is told. And images of others
// that are encoded here.
#include <utility>

#include "engine/local_engine.h"

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
        publish_remote(news);
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

void LocalEngine::publish_remote(const ImageNews& news) {
  if (!images_.wanted(news.key)) return;
  const ModelShape& shape = network_.shape();
  const auto width = shape.embedding_width();
  const auto row_bytes = static_cast<std::size_t>(width) * size_of(shape.kv_dtype);
  const auto count = static_cast<std::int64_t>(news.rows.size() / row_bytes);
  // Host memory that is only read.
  const View rows(const_cast<std::byte*>(news.rows.data()), shape.kv_dtype, count, width);
  Stream& stream = device_.lane(Lane::kEncode);
  stream.wait(step_stream().record());
  Result<Buffer> staging = device_.allocate(static_cast<std::size_t>(news.rows.size()));
  if (!staging) return fail_image(news.key, {ErrorCode::kUnavailable, staging.error().message, {}});
  const View there = staging->view(shape.kv_dtype, count, width);
  stream.upload(rows, there);
  write_rows(stream, news.key, there);
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
