// What the streams of devices that compute on the host have in common: work runs during the call
// that submits it, so every event has been passed, and uploads live in memory of the host.
#pragma once

#include <memory>
#include <vector>

#include "ops/device.h"

namespace saccade {

// Memory handed out piece by piece and taken back all at once: it grows to the largest use and
// stays.
class UploadArena {
 public:
  std::byte* take(std::size_t bytes);  // 16-byte aligned; stays where it is until clear()
  void clear();

 private:
  static constexpr std::size_t kLeast = std::size_t{64} << 10;
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  std::vector<Chunk> chunks_;  // the last one is in use
  std::size_t used_ = 0;       // of it
};

// One row of a SampleArgs, where its memory is the host's.
struct LogitsRow {
  std::span<const float> logits;
  RowStats stats;
  std::span<TokenLogit> alternatives;
};
LogitsRow logits_row(const SampleArgs& args, std::size_t index);
// Leaves the token where the row wants it.
void keep_sampled(const SampleArgs& args, std::size_t index, const SampledToken& sampled);

class HostStream : public Stream {
 public:
  using Stream::upload;
  const AttentionPlan& plan_attention(std::span<const SequenceSpan> spans,
                                      const AttentionGeometry& geometry) override;
  const SegmentPlan& plan_segments(std::span<const std::int32_t> begins,
                                   const SegmentGeometry& geometry) override;
  void retire() override;
  void upload(View from, View to) override { copy(from, to); }
  void download(View from, View to) override { copy(from, to); }
  Event record() override { return {}; }
  void wait(const Event& of) override { of.synchronize(); }
  void synchronize() override {}
  void cut_patches(const CutPatchesArgs& args) override;

 protected:
  const std::byte* upload_bytes(std::span<const std::byte> bytes) override;
  Space space() const override { return Space::kHost; }
  // Until retire().
  const AttentionPlan& keep(std::unique_ptr<AttentionPlan> plan) {
    return *attention_plans_.emplace_back(std::move(plan));
  }

 private:
  UploadArena uploads_;
  std::vector<std::unique_ptr<AttentionPlan>> attention_plans_;
  std::vector<std::unique_ptr<SegmentPlan>> segment_plans_;
};

}  // namespace saccade
