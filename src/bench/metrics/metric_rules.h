// What each known client means by its metrics, one table row a tool. metrics.h applies a row to a
// run log; docs/measuring.md explains the differences.
#pragma once

#include <array>
#include <string_view>

#include "base/result.h"

namespace saccade::bench {

enum class FirstTokenRule {
  kOutput,   // first event with content, reasoning, tool call, token ids or growth of usage
  kText,     // first event with content or reasoning
  kContent,  // first event with content: reasoning does not count
  kChoices,  // first event with `choices`, even if it holds no output
  kServer,   // server's first_token_time - first_scheduled_time: queueing is left out
};

enum class EndRule {
  kDoneOrEnd,    // [DONE], else the end of the body
  kLastChoices,  // last event with `choices`
  kLastEvent,    // last event of any kind
  kUsage,        // the event with usage, else the last one
  kEnd,          // the end of the body
};

enum class TpotRule {
  kFirstToLast,   // (last output event - first) / (tokens after the first event)
  kE2elLessTtft,  // (E2EL - TTFT) / (tokens - 1)
  kFromStart,     // (last output event - start) / tokens: TTFT is in it
  kServer,        // server's (finished_time - first_token_time) / tokens
};

enum class ItlRule {
  kPerToken,     // the gap before an event divided among the tokens that it brought
  kChoicesGaps,  // gaps between events with `choices`
  kContentGaps,  // before each event with content but the first, since the event before of any kind
  kTextGaps,     // gaps between events with content or reasoning
  kMeanGap,      // one value a request: (last output event - first) / (tokens - 1)
  kNone,
};

enum class SuccessRule {
  kStrict,           // error_class() is kNone
  kAnyChoices,       // 2xx, body ended well, some event had `choices`: a cut stream passes
  kDoneChoicesOnly,  // 2xx, [DONE], and no event or comment without `choices` before it
  kHttp,             // 2xx and the body ended well
  kNoErrorEvent,     // as kHttp, without an error event
};

enum class TokenSource {
  kNone,
  kUsage,
  kEvents,       // sum of the tokens that events brought
  kRetokenized,  // own tokenizer over the text
  kRequested,    // what was asked for: an early end counts as a full answer
  kTextEvents,   // number of events with text
  kOne,
};

enum class InputRule {
  kUsage,     // the server's count, else the client's own
  kTextOnly,  // the client's own count of the text: images do not count
  kLocal,     // the client's own count of text and images, else the server's
};

enum class DurationRule { kFirstStartToLastEnd, kOriginToLastEnd };
enum class PercentileRule { kLinear, kByRank };
// What is counted in 1-s bins.
enum class PeakRule { kTokens, kOutputEvents, kChoicesEvents };

// What a row does not say is what most of the tools do.
struct MetricRules {
  std::string_view name;
  FirstTokenRule first_token;
  EndRule end;
  TpotRule tpot = TpotRule::kE2elLessTtft;
  ItlRule itl;
  SuccessRule success;
  std::array<TokenSource, 3> output_tokens;  // the first that is known
  InputRule input_tokens = InputRule::kUsage;
  DurationRule duration = DurationRule::kOriginToLastEnd;
  PercentileRule percentile = PercentileRule::kLinear;
  PeakRule peak = PeakRule::kOutputEvents;
  double tpot_min_decode_s = 0;     // shorter decodes have no TPOT
  bool empty_ttft_is_zero = false;  // a success without content has TTFT 0, which enters the mean
  bool deadlines_from_schedule = false;  // goodput is judged from the scheduled instant
};

// "saccade" (the definitions we stand by), "vllm", "vllm-2024", "sglang", "genai-bench",
// "guidellm", "sqzb".
const MetricRules& default_metric_rules();
Result<MetricRules> metric_rules_named(std::string_view name);

std::string_view name_of(TokenSource source);

}  // namespace saccade::bench
