// Trace files of any format: what is accepted is sorted, and survives being cut, described, written
// and read again.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_stat.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade::bench;
  const auto trace = parse_trace({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!trace) return 0;
  CHECK(!trace->rows.empty());
  const auto earlier = [](const TraceRow& a, const TraceRow& b) { return a.at < b.at; };
  CHECK(std::is_sorted(trace->rows.begin(), trace->rows.end(), earlier));
  CHECK(trace->rows.front().at >= 0);
  for (const TraceRow& row : trace->rows) {
    CHECK(row.first_hash + row.num_hashes <= trace->hash_ids.size());
  }
  const auto half = cut(*trace, {.limit = trace->rows.size() / 2 + 1, .speed = 2, .max_images = 3});
  CHECK(!half || half->trace.rows.size() <= trace->rows.size());
  for (const TraceFormat format :
       {TraceFormat::kGaps, TraceFormat::kAzure, TraceFormat::kBurstGpt, TraceFormat::kMooncake}) {
    const auto text = format_trace(*trace, format);
    if (!text) continue;
    const auto again = parse_trace(*text, "again");
    CHECK(again.has_value(), "{}", again ? "" : again.error().message);
    CHECK(again->rows.size() == trace->rows.size());
  }
  return 0;
}
