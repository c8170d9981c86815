#include "engine/images/pixel_loader.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/check.h"

namespace saccade {
namespace {

// An image and its share of the budget.
struct Held {
  PreparedImage image;
  ByteReservation bytes;
};

Result<std::shared_ptr<const PreparedImage>> load(const ImageSource& source, ByteReservation bytes,
                                                  const Cancelled& cancelled) {
  try {
    TRY(PreparedImage image, source.load(cancelled));
    bytes.shrink_to(pixel_bytes(image));
    const auto held = std::make_shared<const Held>(std::move(image), std::move(bytes));
    return std::shared_ptr<const PreparedImage>(held, &held->image);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kExhausted, "no memory for the pixels of an image");
  }
}

}  // namespace

PixelLoader::PixelLoader(int threads, std::size_t max_bytes, std::function<void()> wake)
    : budget_(max_bytes),
      wake_(std::move(wake)),
      threads_(threads, std::numeric_limits<std::size_t>::max()) {}

PixelLoader::~PixelLoader() {
  for (const auto& [key, cancelled] : begun_) *cancelled = true;
}

void PixelLoader::push(const Digest& key, std::shared_ptr<const ImageSource> source,
                       ClientId client) {
  if (!keys_.insert(key).second) return;
  queue_.push_back({key, client, std::move(source)});
  start();
}

void PixelLoader::start() {
  while (!queue_.empty()) {
    auto bytes = budget_.reserve(std::min(queue_.front().source->load_bytes(), budget_.limit()));
    if (!bytes) return;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    ++loads_;
    // Shared, since a std::function is copied.
    const auto room = std::make_shared<ByteReservation>(*std::move(bytes));
    const auto cancelled = std::make_shared<std::atomic<bool>>(false);
    begun_.emplace(job.key, cancelled);
    const bool taken = threads_.post([this, job = std::move(job), room, cancelled] {
      auto image = load(*job.source, std::move(*room), [&] { return cancelled->load(); });
      {
        const std::lock_guard lock(mutex_);
        ended_.push_back({{job.key, job.client, std::move(image)}, cancelled});
      }
      wake_();
    });
    CHECK(taken, "the threads have ended before the loader");
  }
}

std::vector<PixelLoader::Loaded> PixelLoader::take(
    const std::function<bool(const Digest&)>& wanted) {
  std::vector<Ended> ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
  }
  std::vector<Loaded> loaded;
  for (Ended& one : ended) {
    if (*one.cancelled) {
      one.loaded.image = fail(ErrorCode::kCancelled, "nobody waits for it any more");
      --ending_;
    } else {
      keys_.erase(one.loaded.key);
      begun_.erase(one.loaded.key);
    }
    loaded.push_back(std::move(one.loaded));
  }
  std::erase_if(begun_, [&](const auto& one) {
    if (wanted(one.first)) return false;
    *one.second = true;
    keys_.erase(one.first);
    ++ending_;
    return true;
  });
  std::erase_if(queue_, [&](const Job& job) {
    if (wanted(job.key)) return false;
    keys_.erase(job.key);
    return true;
  });
  start();
  return loaded;
}

std::size_t pixel_bytes(const PreparedImage& image) {
  std::size_t bytes = 0;
  for (const Pixels& frame : image.frames) bytes += frame.rgb.size();
  return bytes;
}

}  // namespace saccade
