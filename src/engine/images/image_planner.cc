#include "engine/images/image_planner.h"

#include <algorithm>

#include "base/check.h"

namespace saccade {
namespace {

// A key that no other sequence and no later encoding shares.
Digest private_key(const Digest& content, RequestId id, int index) {
  return embedding_key(content, std::to_string(id), std::to_string(index));
}

// Whose images come first. Who has pages comes before whoever waits for them, or a running sequence
// could wait for room that waiting ones hold until it ends.
bool goes_before(const Sequence& a, const Sequence& b) {
  return a.kv.admitted() != b.kv.admitted() ? a.kv.admitted() : a.before(b);
}

}  // namespace

ImagePlanner::ImagePlanner(EncoderCache mode, std::int64_t capacity_bytes, std::int64_t page_bytes,
                           std::int64_t row_bytes)
    : mode_(mode), row_bytes_(row_bytes), store_(capacity_bytes, page_bytes) {}

void ImagePlanner::add(Sequence& sequence) {
  if (mode_ != EncoderCache::kOff) return;
  for (SequenceImage& image : sequence.images.edit()) {
    image.key = private_key(image.key, sequence.request.id, image.index);
  }
}

ImageState ImagePlanner::state(const SequenceImage& image) const {
  if (mode_ == EncoderCache::kOverlay) return image.overlaid;
  if (!image.leased) return ImageState::kAbsent;
  return store_.ready(image.key) ? ImageState::kReady : ImageState::kEncoding;
}

const SequenceImage* ImagePlanner::first_unready(const Sequence& sequence,
                                                 std::int64_t begin) const {
  for (const SequenceImage& image : *sequence.images) {
    if (image.end > begin && !ready(image)) return &image;
  }
  return nullptr;
}

std::int64_t ImagePlanner::ready_end(const Sequence& sequence, std::int64_t begin,
                                     std::int64_t end) const {
  const SequenceImage* image = first_unready(sequence, begin);
  return image == nullptr ? end : std::clamp(image->begin, begin, end);
}

void ImagePlanner::want(Sequence& sequence, std::int64_t computed,
                        std::vector<EncodeRequest>& encodes) {
  bool first = true;
  for (int i = 0; i < static_cast<int>(sequence.images->size()); ++i) {
    const SequenceImage& image = (*sequence.images)[static_cast<std::size_t>(i)];
    if (image.end <= computed) continue;
    // What comes next takes room from others; images after it only what costs nobody anything.
    const bool needed = first || image.begin < sequence.request.prompt->bidirectional_prefix;
    if (!image.leased && !obtain(sequence, i, needed, encodes)) return;
    first = false;
  }
}

bool ImagePlanner::obtain(Sequence& sequence, int image, bool by_force,
                          std::vector<EncodeRequest>& encodes) {
  SequenceImage& of = sequence.images.edit()[static_cast<std::size_t>(image)];
  if (!std::exchange(of.counted, true)) {
    ++stats_.queries;
    if (store_.ready(of.key)) ++stats_.hits;
  }
  if (store_.contains(of.key)) {
    store_.lease(of.key);
  } else {
    const std::int64_t bytes = of.rows * row_bytes_;
    if (!store_.insert(of.key, bytes)) {
      if (!by_force || !make_room(sequence, image, bytes)) return false;
      CHECK(store_.insert(of.key, bytes), "{} bytes of {} available", bytes,
            store_.available_bytes());
    }
    encodes.push_back({&sequence, image});
  }
  of.leased = true;
  holders_.insert(&sequence);
  return true;
}

// Takes leases from whoever goes after the asking sequence, the last first, its own later images
// at the end.
bool ImagePlanner::make_room(Sequence& sequence, int image, std::int64_t bytes) {
  const auto enough = [&] {
    return store_.available_bytes() >= store_.pages_for(bytes) * store_.page_bytes();
  };
  std::vector<Sequence*> later;
  for (Sequence* holder : holders_) {
    if (!goes_before(*holder, sequence)) later.push_back(holder);
  }
  std::sort(later.begin(), later.end(),
            [](const Sequence* a, const Sequence* b) { return goes_before(*b, *a); });
  for (Sequence* last : later) {
    const int keep = last == &sequence ? image : -1;
    for (int i = static_cast<int>(last->images->size()) - 1; i > keep && !enough(); --i) {
      let_go(last->images.edit()[static_cast<std::size_t>(i)]);
    }
    if (enough()) return true;
    if (last != &sequence) holders_.erase(last);
  }
  return enough();
}

void ImagePlanner::let_go(SequenceImage& image) {
  if (mode_ == EncoderCache::kOverlay) {
    if (image.overlaid == ImageState::kEncoding && --overlays_.at(image.key) == 0) {
      overlays_.erase(image.key);
    }
    image.overlaid = ImageState::kAbsent;
  } else if (image.leased) {
    if (mode_ == EncoderCache::kOff) store_.erase(image.key);
    store_.release(image.key);
    image.leased = false;
  }
}

void ImagePlanner::want_overlaid(Sequence& sequence, int image,
                                 std::vector<EncodeRequest>& encodes) {
  SequenceImage& of = sequence.images.edit()[static_cast<std::size_t>(image)];
  CHECK(mode_ == EncoderCache::kOverlay && of.overlaid == ImageState::kAbsent, "image {}", image);
  if (!std::exchange(of.counted, true)) ++stats_.queries;
  of.overlaid = ImageState::kEncoding;
  ++overlays_[of.key];
  encodes.push_back({&sequence, image});
}

void ImagePlanner::set_ready(const Digest& key) { store_.set_ready(key); }

void ImagePlanner::set_overlaid(Sequence& sequence, const Digest& key) {
  for (SequenceImage& image : sequence.images.edit()) {
    if (image.overlaid != ImageState::kEncoding || image.key != key) continue;
    let_go(image);
    image.overlaid = ImageState::kReady;
  }
}

bool ImagePlanner::wanted(const Digest& key) const {
  if (mode_ == EncoderCache::kOverlay) return overlays_.contains(key);
  return store_.contains(key) && !store_.ready(key);
}

void ImagePlanner::computed(Sequence& sequence, std::int64_t begin, std::int64_t end) {
  if (mode_ == EncoderCache::kOff) {
    for (SequenceImage& image : sequence.images.edit()) {
      if (image.begin < end && image.end > begin) let_go(image);
    }
  }
  skip(sequence, end);
}

void ImagePlanner::skip(Sequence& sequence, std::int64_t end) {
  if (mode_ == EncoderCache::kOverlay) return;
  bool holds = false;
  for (SequenceImage& image : sequence.images.edit()) {
    if (image.end <= end && image.leased) let_go(image);
    holds = holds || image.leased;
  }
  if (!holds) holders_.erase(&sequence);
}

void ImagePlanner::drop(Sequence& sequence) {
  for (SequenceImage& image : sequence.images.edit()) let_go(image);
  holders_.erase(&sequence);
}

}  // namespace saccade
