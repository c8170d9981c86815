#include "cluster/sizes/request_clip.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saccade::cluster {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

Nanos from_ms(double ms) { return static_cast<Nanos>(ms * 1e6); }

bool is_stored(const SizeAsk& ask, std::int64_t tokens) {
  return std::ranges::find(ask.stored, tokens) != ask.stored.end();
}

std::int64_t least_of(const SizeAsk& ask, std::int64_t floor) {
  if (ask.fixed) return ask.native;
  return std::min(ask.native, std::max(floor, ask.least));
}

// The size of one image under a cap, and of a stored one under its own.
std::int64_t size_under(const SizeAsk& ask, std::int64_t cap, std::int64_t stored_cap,
                        std::int64_t floor) {
  if (ask.fixed) return ask.native;
  const std::int64_t least = least_of(ask, floor);
  std::int64_t stored = 0;
  for (const std::int64_t tokens : ask.stored)
    if (tokens >= least && tokens <= std::min(stored_cap, ask.native))
      stored = std::max(stored, tokens);
  return stored > 0 ? stored : std::max(least, std::min(ask.native, cap));
}

}  // namespace

Nanos predicted_first_token(const StageCosts& costs, const StageWaits& waits,
                            const ClipRequest& request, std::span<const std::int64_t> tokens) {
  double encode = 0;
  std::int64_t prompt = request.text_tokens;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    prompt += tokens[i];
    if (!is_stored(request.images[i], tokens[i])) encode += costs.encode_ms(tokens[i]);
  }
  const StageWaits with_own{waits.encoder + from_ms(encode), waits.prefill};
  return request.elapsed + with_own.sum() + from_ms(costs.prefill_ms(prompt));
}

ClippedSizes clip_request(const SizeLadder& ladder, std::int64_t cap, const StageCosts& costs,
                          const StageWaits& waits, const ClipRequest& request) {
  const auto usable = static_cast<Nanos>(kUsedOfTarget * static_cast<double>(request.target));
  ClippedSizes clipped;
  const auto try_cap = [&](std::int64_t under, std::int64_t stored_under) {
    clipped.tokens.clear();
    for (const SizeAsk& ask : request.images)
      clipped.tokens.push_back(size_under(ask, under, stored_under, ladder.floor()));
    clipped.predicted = predicted_first_token(costs, waits, request, clipped.tokens);
    clipped.in_time = clipped.predicted <= usable;
    clipped.late = std::max<Nanos>(0, clipped.predicted - usable);
    return clipped.in_time;
  };
  if (try_cap(cap, kAny)) return clipped;
  for (std::int64_t under = cap; !try_cap(under, under) && under > ladder.floor();)
    under = ladder.below(under);
  return clipped;
}

std::int64_t retry_after_seconds(Nanos late) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(seconds(late))));
}

}  // namespace saccade::cluster
