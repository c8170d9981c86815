// The published rule for traffic-aware image sizes, with its quirks, so that others can be held
// against it: a straight line through the latency of whole requests says how many tokens fit into
// the target, and the requests of the last seconds share them.
//
//   capacity = int((target ms + 36.72) / 0.1197)                       17,015 at 2 s
//   rate     = requests of the last 3 s, this one included / max(now - the oldest, 1 s)
//   budget   = int(capacity / (target s * (rate + 1e-5)))              tokens, each image
//   an image of more than `budget` squares of 28 pixels: its longer side becomes
//   int(sqrt(budget) * 28), and the other follows
//
// Quirks that are kept: requests without an image count; several images of one request have the
// whole budget each; a narrow image gets less than its budget, as that is for a square of its
// longer side; a request on its own counts as one a second, and one that follows 2.9 s later as
// 0.69.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"

namespace saccade::cluster {

// The line as published, milliseconds over visual tokens.
struct SeedLine {
  double slope = 0.1197;
  double intercept = -36.72;
};

// Tokens that the line says can be answered within `target`; at least 1.
std::int64_t seed_capacity(Nanos target, const SeedLine& line = {});
// Tokens of each image at `rate` requests a second; at least 1.
std::int64_t seed_budget(std::int64_t capacity, Nanos target, double rate);

struct PixelSize {
  int width = 0;
  int height = 0;
  bool operator==(const PixelSize&) const = default;
};
// What the rule makes of an image before the model's own processing; absent: it stays as it is.
std::optional<PixelSize> seed_reduced(int width, int height, std::int64_t budget);

// Requests a second as the rule counts them. One thread.
class SeedRate {
 public:
  explicit SeedRate(const Clock& clock) : clock_(clock) {}
  // A request has come; the rate with it.
  double arrived();

 private:
  const Clock& clock_;
  std::deque<Nanos> arrivals_;  // within the window
};

}  // namespace saccade::cluster
