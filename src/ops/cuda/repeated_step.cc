#include "ops/cuda/repeated_step.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/log.h"
#include "ops/cuda/device_failed.h"

namespace saccade::cuda {
namespace {

constexpr std::size_t kLeastBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxBytes = std::size_t{32} << 20;
constexpr std::size_t kLeastList = 256;
// Equal steps before a graph is made of them: two may be chance. Twice as many after each graph
// that had to go, up to a point.
constexpr int kTimes = 2;
constexpr int kMaxDoublings = 6;

}  // namespace

RepeatedStep::RepeatedStep(Runtime& runtime, cudaStream_t stream, UploadRing& ring)
    : runtime_(runtime), stream_(stream), ring_(ring) {}

RepeatedStep::~RepeatedStep() {
  for (auto& [kind, kept] : kept_) drop(kept);
  if (memory_ != nullptr) runtime_.free(memory_);
}

void RepeatedStep::begin(std::int64_t kind) {
  CHECK(!keeps() && kind >= 0, "a step of kind {} in one of {}", kind, kind_);
  if (!make_room()) return;
  kind_ = kind;
  used_ = 0;
  next_list_ = 0;
  calls_.clear();
}

// Places that move take the graphs with them: their arguments would be others.
bool RepeatedStep::make_room() {
  if (memory_ != nullptr && wanted_ <= bytes_) return true;
  const std::size_t bytes = std::bit_ceil(std::max(kLeastBytes, wanted_));
  for (auto& [kind, kept] : kept_) drop(kept);
  if (memory_ != nullptr) runtime_.free(memory_);
  memory_ = runtime_.allocate(bytes);
  bytes_ = memory_ == nullptr ? 0 : bytes;
  wanted_ = 0;
  staged_.resize(bytes_);
  return memory_ != nullptr;
}

// A list's room only grows, by doubling: those behind it seldom move.
const std::byte* RepeatedStep::place(std::span<const std::byte> list) {
  std::vector<std::size_t>& capacities = kept_[kind_].capacities;
  if (next_list_ == capacities.size()) capacities.push_back(kLeastList);
  std::size_t& capacity = capacities[next_list_++];
  capacity = std::max(capacity, std::bit_ceil(list.size()));
  if (used_ + capacity > bytes_) {
    wanted_ = std::min(kMaxBytes, std::max(bytes_ * 2, used_ + capacity));
    interrupt();
    return nullptr;
  }
  std::memcpy(staged_.data() + used_, list.data(), list.size());
  const std::byte* const at = memory_ + used_;
  used_ += capacity;
  return at;
}

void RepeatedStep::send() {
  if (used_ == 0) return;
  const UploadRing::Piece piece = ring_.take(used_);
  std::memcpy(piece.host, staged_.data(), used_);
  runtime_.copy({.to = memory_,
                 .to_stride = used_,
                 .from = piece.host,
                 .from_stride = used_,
                 .row_bytes = used_,
                 .rows = 1},
                Direction::kToDevice, stream_);
  ring_.release();
  used_ = 0;
}

void RepeatedStep::interrupt() {
  if (!keeps()) return;
  send();
  runtime_.select();
  calls_.launch_all(stream_);
  calls_.clear();
  kind_ = -1;
}

void RepeatedStep::end() {
  if (!keeps()) return;  // it was interrupted
  Kept& kept = kept_[kind_];
  kind_ = -1;
  send();
  runtime_.select();
  if (kept.calls != calls_) {
    drop(kept);
    calls_.launch_all(stream_);
    std::swap(kept.calls, calls_);
    kept.times = 1;
    return;
  }
  const int times = kTimes << std::min(kept.captures, kMaxDoublings);
  if (kept.graph == nullptr && ++kept.times > times) {
    const std::int64_t free = runtime_.free_bytes();
    runtime_.begin_capture(stream_);
    calls_.launch_all(stream_);
    kept.graph = runtime_.end_capture(stream_);
    ++graph_count_;
    ++capture_count_;
    ++kept.captures;
    log::debug("a graph of {} launches takes {} bytes of the device", calls_.size(),
               free - runtime_.free_bytes());
  }
  if (kept.graph == nullptr) {
    calls_.launch_all(stream_);
    return;
  }
  runtime_.launch(kept.graph, stream_);
  ++replay_count_;
}

void RepeatedStep::drop(Kept& kept) {
  if (kept.graph != nullptr) {
    as_far_as_it_goes([&] { runtime_.synchronize(stream_); });  // it may be running
    runtime_.destroy(kept.graph);
    --graph_count_;
  }
  kept.graph = nullptr;
  kept.calls.clear();
  kept.times = 0;
}

}  // namespace saccade::cuda
