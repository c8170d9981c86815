// The sizes that a controller may choose for images, in tokens: few of them, so that the same image
// comes in the same sizes again and its embeddings are found.
#pragma once

#include <cstdint>
#include <vector>

namespace saccade::cluster {

// Immutable. At least one rung; the least of them is the floor.
class SizeLadder {
 public:
  // top / 2^(k/2) in whole tokens, rounded, down to `floor`, which is a rung itself: 16384, 11585,
  // 8192, 5793, ... 362, 256. A floor over the top is the top.
  static SizeLadder halving(std::int64_t top, std::int64_t floor);
  // Rungs of a family whose images come in tiles: the counts that it has, those under the floor
  // left out unless all are.
  static SizeLadder of_counts(std::vector<std::int64_t> counts, std::int64_t floor);

  const std::vector<std::int64_t>& rungs() const { return rungs_; }  // the largest first
  std::int64_t top() const { return rungs_.front(); }
  std::int64_t floor() const { return rungs_.back(); }
  // The largest rung up to `level`, the floor if there is none.
  std::int64_t at_most(double level) const;
  // The next rung below `tokens`, the floor if there is none.
  std::int64_t below(std::int64_t tokens) const;

 private:
  explicit SizeLadder(std::vector<std::int64_t> rungs) : rungs_(std::move(rungs)) {}
  std::vector<std::int64_t> rungs_;
};

}  // namespace saccade::cluster
