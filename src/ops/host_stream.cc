#include "ops/host_stream.h"

#include <algorithm>

namespace saccade {

std::byte* UploadArena::take(std::size_t bytes) {
  constexpr std::size_t kAlign = 16;
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  if (chunks_.empty() || used_ + bytes > chunks_.back().size) {
    std::size_t size = std::max(bytes, kLeast);
    for (const Chunk& chunk : chunks_) size = std::max(size, 2 * chunk.size);
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    used_ = 0;
  }
  std::byte* const taken = chunks_.back().bytes.get() + used_;
  used_ += bytes;
  return taken;
}

void UploadArena::clear() {
  if (chunks_.size() > 1) chunks_.erase(chunks_.begin(), chunks_.end() - 1);  // the largest is last
  used_ = 0;
}

const AttentionPlan& HostStream::plan_attention(std::span<const SequenceSpan> spans,
                                                const AttentionGeometry& geometry) {
  return keep(std::make_unique<AttentionPlan>(spans, geometry));
}

const SegmentPlan& HostStream::plan_segments(std::span<const std::int32_t> begins,
                                             const SegmentGeometry& geometry) {
  return *segment_plans_.emplace_back(std::make_unique<SegmentPlan>(begins, geometry));
}

void HostStream::retire() {
  uploads_.clear();
  attention_plans_.clear();
  segment_plans_.clear();
}

const std::byte* HostStream::upload_bytes(std::span<const std::byte> bytes) {
  std::byte* const to = uploads_.take(bytes.size());
  std::memcpy(to, bytes.data(), bytes.size());
  return to;
}

}  // namespace saccade
