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
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace saccade::cluster {

// The line as published, milliseconds over visual tokens, and the rule's unit of time: traffic that
// is replayed f times as slowly has a second of f.
struct SeedLine {
  double slope = 0.1197;
  double intercept = -36.72;
  double second = 1;
  bool operator==(const SeedLine&) const = default;
};
// "SLOPE,INTERCEPT" or "SLOPE,INTERCEPT,SECOND"; kInvalid says what is wrong.
Result<SeedLine> parse_seed_line(std::string_view text);

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
  explicit SeedRate(const Clock& clock, double second = 1) : clock_(clock), second_(second) {}
  // A request has come; the rate with it, of the clock's seconds.
  double arrived();

 private:
  const Clock& clock_;
  const double second_;
  std::deque<Nanos> arrivals_;  // within the window
};

}  // namespace saccade::cluster
