#include "model/prompts/prompt.h"

#include <algorithm>

namespace saccade {
namespace {

// The interval that holds token `at`, or null.
const TokenInterval* interval_of(const Prompt& prompt, std::int64_t at) {
  const auto found = std::ranges::upper_bound(prompt.both_ways, at, {}, &TokenInterval::end);
  return found != prompt.both_ways.end() && found->begin <= at ? &*found : nullptr;
}

}  // namespace

std::int64_t least_step_end(const Prompt& prompt, std::int64_t begin) {
  if (begin < prompt.bidirectional_prefix) return prompt.bidirectional_prefix;
  const TokenInterval* interval = interval_of(prompt, begin);
  return interval != nullptr ? interval->end : begin;
}

std::int64_t last_step_end(const Prompt& prompt, std::int64_t begin, std::int64_t end) {
  if (end < prompt.bidirectional_prefix) return begin;
  const TokenInterval* cut = interval_of(prompt, end);
  return cut != nullptr && cut->begin < end ? std::max(begin, cut->begin) : end;
}

std::int64_t least_step_tokens(const Prompt& prompt) {
  std::int64_t most = prompt.bidirectional_prefix;
  for (const TokenInterval each : prompt.both_ways) most = std::max(most, each.end - each.begin);
  return most;
}

}  // namespace saccade
