#include "engine/images/lent_images.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/readback.h"

namespace saccade {

// --- any thread ---

void LentImages::encode(const Digest& key, std::shared_ptr<const ImageSource> source, Done done) {
  std::optional<Error> closed;
  {
    const std::lock_guard lock(mutex_);
    closed = closed_;
    if (!closed) arrivals_.push_back({key, std::move(source), std::move(done), clock_.now()});
  }
  if (closed) return done(key, saccade::fail(*closed));
  wake_();
}

void LentImages::let_go(const Digest& key) {
  {
    const std::lock_guard lock(mutex_);
    left_.push_back(key);
  }
  wake_();
}

EncodeCost LentImages::cost() const {
  const std::lock_guard lock(mutex_);
  return cost_;
}

// --- the engine's thread ---

bool LentImages::take(const Start& start) {
  std::vector<Job> arrivals;
  std::vector<Digest> left;
  {
    const std::lock_guard lock(mutex_);
    arrivals.swap(arrivals_);
    left.swap(left_);
  }
  for (Job& arrival : arrivals) {
    const Digest key = arrival.key;
    const auto source = arrival.source;
    jobs_.insert_or_assign(key, std::move(arrival));
    start(key, source);
  }
  // What has been let go is told so at once; its stages end when the engine looks what is wanted.
  for (const Digest& key : left)
    fail(key, {ErrorCode::kCancelled, "nobody waits for it any more", {}});
  return !arrivals.empty() || !left.empty();
}

void LentImages::publish(const Digest& key, View rows) {
  const auto found = jobs_.find(key);
  if (found != jobs_.end()) end(key, read(found->second, rows));
}

Result<EncodedImage> LentImages::read(const Job& job, View rows) {
  TRY(const View host, readable(device_.lane(Lane::kEncode), rows, staging_));
  EncodedImage image;
  image.queued = std::max<Nanos>(0, begun_ - job.since);
  image.encoded = clock_.now() - begun_;
  const auto row_bytes = static_cast<std::size_t>(host.cols()) * size_of(host.dtype());
  image.rows.resize(static_cast<std::size_t>(host.rows()) * row_bytes);
  for (std::int64_t row = 0; row < host.rows(); ++row) {
    std::memcpy(image.rows.data() + static_cast<std::size_t>(row) * row_bytes,
                host.data() + static_cast<std::size_t>(row) * host.row_bytes(), row_bytes);
  }
  return image;
}

void LentImages::fail(const Digest& key, const Error& error) { end(key, saccade::fail(error)); }

void LentImages::close(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    closed_ = error;
  }
  take([](const Digest&, const std::shared_ptr<const ImageSource>&) {});
  while (!jobs_.empty()) {
    const Digest key = jobs_.begin()->first;
    fail(key, error);
  }
}

void LentImages::measured(const EncodeCost& cost) {
  const std::lock_guard lock(mutex_);
  cost_ = cost;
}

void LentImages::end(const Digest& key, Result<EncodedImage> image) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  const Done done = std::move(found->second.done);
  jobs_.erase(found);
  done(key, std::move(image));
}

}  // namespace saccade
