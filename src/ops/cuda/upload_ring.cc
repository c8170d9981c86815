#include "ops/cuda/upload_ring.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/cuda/device_failed.h"

namespace saccade::cuda {

UploadRing::UploadRing(Runtime& runtime, cudaStream_t stream, std::size_t max_bytes)
    : runtime_(runtime), stream_(stream), max_bytes_(max_bytes) {}

UploadRing::~UploadRing() {
  for (const Chunk& chunk : open_) free(chunk);
  for (const Chunk& chunk : spare_) free(chunk);
  for (const Released& released : released_) {
    for (const Chunk& chunk : released.chunks) free(chunk);
    runtime_.destroy(released.event);
  }
  for (cudaEvent_t const event : spare_events_) runtime_.destroy(event);
}

UploadRing::Piece UploadRing::take(std::size_t bytes) {
  constexpr std::size_t kAlign = 16;
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  if (open_.empty() || open_.back().used + bytes > open_.back().size) add_chunk(bytes);
  Chunk& chunk = open_.back();
  const Piece piece{chunk.host + chunk.used, chunk.device + chunk.used};
  chunk.used += bytes;
  return piece;
}

void UploadRing::hold(std::size_t bytes, int count) {
  for (int i = 0; i < count; ++i) add_chunk(bytes);
  for (const Chunk& chunk : open_) spare_.push_back(chunk);
  open_.clear();
}

void UploadRing::send() {
  for (Chunk& chunk : open_) {
    if (chunk.sent == chunk.used) continue;
    const std::size_t bytes = chunk.used - chunk.sent;
    runtime_.copy({.to = chunk.device + chunk.sent,
                   .to_stride = bytes,
                   .from = chunk.host + chunk.sent,
                   .from_stride = bytes,
                   .row_bytes = bytes,
                   .rows = 1},
                  Direction::kToDevice, stream_);
    chunk.sent = chunk.used;
  }
}

void UploadRing::release() {
  if (open_.empty()) return;
  Released released;
  if (spare_events_.empty()) {
    released.event = runtime_.make_event();
  } else {
    released.event = spare_events_.back();
    spare_events_.pop_back();
  }
  runtime_.record(released.event, stream_);
  released.chunks = std::move(open_);
  open_.clear();
  released_.push_back(std::move(released));
}

void UploadRing::add_chunk(std::size_t bytes) {
  reclaim();
  // The smallest that is large enough.
  const auto find = [&] {
    auto best = spare_.end();
    for (auto chunk = spare_.begin(); chunk != spare_.end(); ++chunk)
      if (chunk->size >= bytes && (best == spare_.end() || chunk->size < best->size)) best = chunk;
    return best;
  };
  auto found = find();
  while (found == spare_.end() && !released_.empty() && held_bytes_ + bytes > max_bytes_) {
    runtime_.synchronize(released_.front().event);
    reclaim();
    found = find();
  }
  if (found != spare_.end()) {
    open_.push_back(*found);
    spare_.erase(found);
    return;
  }
  Chunk chunk;
  for (chunk.size = kLeast; chunk.size < bytes;) chunk.size *= 2;
  // None fits. Those there are stay while there is room beside them: giving pinned memory back
  // waits for all of the device's work, which may itself wait for what this thread is about to
  // launch.
  if (held_bytes_ + chunk.size > max_bytes_) {
    for (const Chunk& small : spare_) free(small);
    spare_.clear();
  }
  chunk.host = runtime_.allocate_pinned(chunk.size);
  chunk.device = runtime_.allocate(chunk.size);
  if (chunk.host == nullptr || chunk.device == nullptr) {
    if (chunk.host != nullptr) runtime_.free_pinned(chunk.host);
    if (chunk.device != nullptr) runtime_.free(chunk.device);
    throw DeviceFailed(fmt::format("no {} bytes to upload from", chunk.size));
  }
  held_bytes_ += chunk.size;
  open_.push_back(chunk);
}

void UploadRing::reclaim() {
  while (!released_.empty() && runtime_.passed(released_.front().event)) {
    for (Chunk& chunk : released_.front().chunks) {
      chunk.used = chunk.sent = 0;
      spare_.push_back(chunk);
    }
    spare_events_.push_back(released_.front().event);
    released_.pop_front();
  }
}

void UploadRing::free(const Chunk& chunk) {
  runtime_.free_pinned(chunk.host);
  runtime_.free(chunk.device);
  held_bytes_ -= std::min(held_bytes_, chunk.size);
}

}  // namespace saccade::cuda
