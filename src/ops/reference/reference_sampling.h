// The slow twin of the sampling op.
#pragma once

#include <map>
#include <set>
#include <span>

#include "ops/device.h"

namespace saccade {

class ReferenceTokenCounts final : public TokenCounts {
 public:
  explicit ReferenceTokenCounts(std::span<const std::int32_t> of_prompt);
  std::set<std::int32_t> prompt;
  std::map<std::int32_t, int> generated;
};

// alternatives: room for as many as the row asks for.
SampledToken reference_sample(std::span<const float> logits, const RowStats& stats,
                              const SamplingRow& row, std::span<TokenLogit> alternatives);

}  // namespace saccade
