// The sizes of one request's images: the common cap, lowered as far as the request's own deadline
// needs, within what its client allows. Values in, values out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/sizes/profile.h"
#include "cluster/sizes/size_ladder.h"

namespace saccade::cluster {

// Share of the target that a predicted first token may take; the rest is for what no prediction
// knows.
constexpr double kUsedOfTarget = 0.9;

// What is known of an image before it is given a size. Tokens.
struct SizeAsk {
  std::int64_t native = 0;                // as large as its client's bounds leave it
  std::int64_t least = 1;                 // its client's lower bound
  bool fixed = false;                     // detail "high": its native size, whatever it takes
  std::vector<std::int64_t> stored = {};  // sizes that need no encoding: an earlier turn had them
};

// What encoding and prefill take, as predicted.
struct StageCosts {
  StageCost encode;
  StageCost prefill;
  double encode_factor = 1;  // real over predicted, now
  double prefill_factor = 1;

  double encode_ms(std::int64_t tokens) const {
    return encode_factor * encode.ms(static_cast<double>(tokens));
  }
  double prefill_ms(std::int64_t tokens) const {
    return prefill_factor * prefill.ms(static_cast<double>(tokens));
  }
};

// Work that stands before a request which comes now. The stages take turns on one device.
struct StageWaits {
  Nanos encoder = 0;
  Nanos prefill = 0;
  Nanos sum() const { return encoder + prefill; }
};

struct ClipRequest {
  std::span<const SizeAsk> images;
  std::int64_t text_tokens = 0;
  Nanos elapsed = 0;  // since it arrived
  Nanos target = 0;   // time to first token
};

struct ClippedSizes {
  std::vector<std::int64_t> tokens;  // of each image, at most
  Nanos predicted = 0;               // time to first token, from its arrival
  bool in_time = true;
  Nanos late = 0;  // predicted over what the target leaves
};

// Time to first token with images of these sizes, from the request's arrival.
Nanos predicted_first_token(const StageCosts& costs, const StageWaits& waits,
                            const ClipRequest& request, std::span<const std::int64_t> tokens);

// The largest sizes up to `cap` that are in time, common to all images of the request; the lowest
// allowed ones when none are.
ClippedSizes clip_request(const SizeLadder& ladder, std::int64_t cap, const StageCosts& costs,
                          const StageWaits& waits, const ClipRequest& request);

// Seconds after which a request that is so late may be tried again; at least 1.
std::int64_t retry_after_seconds(Nanos late);

}  // namespace saccade::cluster
