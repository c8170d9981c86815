// Who computes which tile of a flash attention: pure, of the host's integers alone.
#pragma once

#include <span>
#include <vector>

#include "ops/cuda/libraries/flash_kernels.h"

namespace saccade::cuda {

// One sequence's rows of a call.
struct FlashSequence {
  std::int32_t query_begin = 0;
  std::int32_t query_count = 0;  // at least one
  std::int32_t key_begin = 0;    // as FlashLists::key_begins
  std::int32_t key_count = 0;    // of pages at least query_count
};

// Every tile of every head once, dealt to `blocks` thread blocks that run beside each other: the
// dearest first, each to the block that has least so far. So none has more than the mean and one
// piece more. The heads of one tile follow each other, because they read the same keys.
class FlashPlan {
 public:
  FlashPlan(const FlashForm& form, std::int64_t heads, int blocks,
            std::span<const FlashSequence> sequences);

  std::int64_t works() const { return works_; }
  // All lists one behind another, and where they are once these lie at `data`.
  std::span<const std::int32_t> integers() const { return integers_; }
  FlashLists at(const std::int32_t* data) const;

  // What a piece of work is taken to cost: the keys it walks, and as many as it has queries for
  // fetching those and storing results.
  static std::int64_t cost(const FlashForm& form, std::int64_t keys) {
    return (keys + form.key_rows - 1) / form.key_rows * form.key_rows + form.query_rows;
  }
  // Keys that a tile of a sequence walks.
  static std::int64_t keys_of(const FlashForm& form, const FlashSequence& sequence,
                              std::int64_t tile);

 private:
  std::int64_t blocks_;
  std::int64_t works_ = 0;
  std::vector<std::int32_t> integers_;
};

}  // namespace saccade::cuda
