// Run logs from anywhere: what is accepted can be measured by every set of rules, and written
// again.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "bench/log/run_log.h"
#include "bench/metrics/metric_rules.h"
#include "bench/metrics/metrics.h"

// A latency each, sorted under every set of rules: more take longer than one run should.
constexpr std::int64_t kMaxTokens = 1 << 18;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade::bench;
  const auto log = parse_run_log({reinterpret_cast<const char*>(data), size});
  if (!log) return 0;
  CHECK(log->event_begin.size() == log->requests.size() + 1);
  std::int64_t tokens = 0;
  for (const LoggedEvent& event : log->events) tokens += std::max(0, event.tokens);
  if (tokens > kMaxTokens) return 0;
  for (const char* const rules :
       {"saccade", "vllm", "vllm-2024", "sglang", "genai-bench", "guidellm", "sqzb"}) {
    compute_metrics(*log, {.rules = *metric_rules_named(rules)});
  }
  const auto again = parse_run_log(to_text(*log));
  CHECK(again.has_value(), "{}", again ? "" : again.error().message);
  CHECK(again->requests.size() == log->requests.size());
  CHECK(again->events.size() == log->events.size());
  return 0;
}
