#include "ops/host_stream.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/shapes.h"

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

LogitsRow logits_row(const SampleArgs& args, std::size_t index) {
  const std::int64_t row = args.rows[index].row;
  LogitsRow of;
  of.logits = {args.logits.row<float>(row), static_cast<std::size_t>(args.logits.cols())};
  std::memcpy(&of.stats, args.stats.row<std::uint8_t>(row), sizeof(of.stats));
  if (args.rows[index].alternatives > 0) {
    auto* const to = args.alternatives.row<std::uint8_t>(static_cast<std::int64_t>(index));
    of.alternatives = {reinterpret_cast<TokenLogit*>(to),
                       static_cast<std::size_t>(args.rows[index].alternatives)};
  }
  return of;
}

void keep_sampled(const SampleArgs& args, std::size_t index, const SampledToken& sampled) {
  std::memcpy(args.sampled.row<std::uint8_t>(static_cast<std::int64_t>(index)), &sampled,
              sizeof(sampled));
  const std::int32_t slot = args.rows[index].slot;
  if (slot >= 0) *args.last_tokens.row<std::int32_t>(slot) = sampled.token;
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

void HostStream::cut_patches(const CutPatchesArgs& args) {
  check_shapes(args);
  const std::int64_t side = args.side;
  const auto last = static_cast<std::int64_t>(args.frames.size()) - 1;
  std::vector<float> values(static_cast<std::size_t>(args.out.cols()));
  for (std::int64_t row = 0; row < args.out.rows(); ++row) {
    const PatchPlace place = args.places[static_cast<std::size_t>(row)];
    for (std::int64_t col = 0; col < args.out.cols(); ++col) {
      const std::int64_t x = place.left + col % side;
      const std::int64_t y = place.top + col / side % side;
      const auto frame = static_cast<std::size_t>(std::min(col / (side * side) % args.depth, last));
      const auto channel = static_cast<std::size_t>(col / (side * side * args.depth));
      const auto at = static_cast<std::size_t>((y * args.width + x) * 3) + channel;
      values[static_cast<std::size_t>(col)] = args.values[channel][args.frames[frame][at]];
    }
    copy(View(values.data(), DType::kF32, 1, args.out.cols()), args.out.row_range(row, row + 1));
  }
}

const std::byte* HostStream::upload_bytes(std::span<const std::byte> bytes) {
  std::byte* const to = uploads_.take(bytes.size());
  std::memcpy(to, bytes.data(), bytes.size());
  return to;
}

}  // namespace saccade
