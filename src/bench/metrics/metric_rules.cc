#include "bench/metrics/metric_rules.h"

#include <string>

namespace saccade::bench {
namespace {

using enum TokenSource;

constexpr std::array<MetricRules, 7> kRules = {{
    {.name = "saccade",
     .first_token = FirstTokenRule::kOutput,
     .end = EndRule::kDoneOrEnd,
     .tpot = TpotRule::kFirstToLast,
     .itl = ItlRule::kPerToken,
     .success = SuccessRule::kStrict,
     .output_tokens = {kUsage, kEvents, kRetokenized},
     .duration = DurationRule::kFirstStartToLastEnd,
     .peak = PeakRule::kTokens,
     .deadlines_from_schedule = true},
    {.name = "vllm",
     .first_token = FirstTokenRule::kChoices,
     .end = EndRule::kLastChoices,
     .itl = ItlRule::kChoicesGaps,
     .success = SuccessRule::kAnyChoices,
     .output_tokens = {kUsage, kRetokenized, kOne},
     .peak = PeakRule::kChoicesEvents},
    {.name = "vllm-2024",
     .first_token = FirstTokenRule::kContent,
     .end = EndRule::kDoneOrEnd,
     .itl = ItlRule::kContentGaps,
     .success = SuccessRule::kDoneChoicesOnly,
     .output_tokens = {kRetokenized, kUsage, kNone},
     .input_tokens = InputRule::kTextOnly,
     .peak = PeakRule::kChoicesEvents,
     .empty_ttft_is_zero = true},
    {.name = "sglang",
     .first_token = FirstTokenRule::kText,
     .end = EndRule::kLastEvent,
     .itl = ItlRule::kTextGaps,
     .success = SuccessRule::kHttp,
     .output_tokens = {kUsage, kRequested, kNone},
     .input_tokens = InputRule::kLocal,
     .empty_ttft_is_zero = true},
    {.name = "genai-bench",
     .first_token = FirstTokenRule::kText,
     .end = EndRule::kUsage,
     .itl = ItlRule::kNone,
     .success = SuccessRule::kNoErrorEvent,
     .output_tokens = {kUsage, kRetokenized, kNone},
     .tpot_min_decode_s = 1e-3},
    {.name = "guidellm",
     .first_token = FirstTokenRule::kText,
     .end = EndRule::kEnd,
     .tpot = TpotRule::kFromStart,
     .itl = ItlRule::kMeanGap,
     .success = SuccessRule::kNoErrorEvent,
     .output_tokens = {kUsage, kTextEvents, kNone},
     .duration = DurationRule::kFirstStartToLastEnd,
     .percentile = PercentileRule::kByRank},
    {.name = "sqzb",
     .first_token = FirstTokenRule::kServer,
     .end = EndRule::kEnd,
     .tpot = TpotRule::kServer,
     .itl = ItlRule::kNone,
     .success = SuccessRule::kHttp,
     .output_tokens = {kUsage, kEvents, kRetokenized},
     .input_tokens = InputRule::kLocal},
}};

}  // namespace

const MetricRules& default_metric_rules() { return kRules.front(); }

Result<MetricRules> metric_rules_named(std::string_view name) {
  std::string known;
  for (const MetricRules& rules : kRules) {
    if (rules.name == name) return rules;
    known += known.empty() ? "" : ", ";
    known += rules.name;
  }
  return fail(ErrorCode::kInvalid, "--compat '{}' is not known; known are {}", name, known);
}

std::string_view name_of(TokenSource source) {
  constexpr std::array<std::string_view, 7> kNames = {
      "none", "usage", "events", "retokenized", "requested", "text-events", "one"};
  return kNames.at(static_cast<std::size_t>(source));
}

}  // namespace saccade::bench
