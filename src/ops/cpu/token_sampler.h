// Chooses one token from a row of f32 logits: the CPU's own way of what ops/sampling.h says.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "ops/device.h"

namespace saccade::cpu {

class CpuTokenCounts final : public TokenCounts {
 public:
  explicit CpuTokenCounts(std::span<const std::int32_t> prompt);
  void count(std::int32_t token) { ++generated_[token]; }
  std::span<const std::int32_t> prompt() const { return prompt_; }  // distinct
  const std::unordered_map<std::int32_t, std::int32_t>& generated() const { return generated_; }

 private:
  std::vector<std::int32_t> prompt_;
  std::unordered_map<std::int32_t, std::int32_t> generated_;
};

// Scratch of one worker. One thread.
class TokenSampler {
 public:
  // `logits` is not changed. `alternatives`: room for as many as the row asks for.
  SampledToken pick(std::span<const float> logits, const RowStats& stats, const SamplingRow& row,
                    std::span<TokenLogit> alternatives);

 private:
  struct Candidate {
    float logit;
    std::int32_t token;
  };
  void adjust(const SamplingRow& row);
  void keep_allowed(std::span<const std::uint32_t> allowed);
  void penalise(const SamplingRow& row);
  std::int32_t draw(const SamplingRow& row);
  std::int32_t draw_among_all(float floor, double uniform);
  static std::int32_t draw_among(std::span<const Candidate> candidates, double uniform);
  std::size_t keep_top_k(std::int64_t top_k, float floor);
  std::size_t keep_top_p(double top_p, std::size_t count, double total);
  std::int32_t list_alternatives(std::span<const float> logits, const RowStats& stats,
                                 std::span<TokenLogit> alternatives);

  std::vector<float> logits_;
  std::vector<Candidate> candidates_;
};

}  // namespace saccade::cpu
