// Prometheus pages: what is accepted reads the same after it was written again.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "bench/load/server/metrics_page.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade::bench;
  const std::string_view page(reinterpret_cast<const char*>(data), size);
  constexpr std::size_t kMaxSeries = 50;
  const auto samples = parse_metrics_page(page, {.max_series = kMaxSeries, .buckets = true});
  if (!samples) return 0;
  CHECK(samples->size() <= kMaxSeries);
  std::string written;
  for (const auto& [series, value] : *samples) {
    CHECK(std::isfinite(value));
    written += fmt::format("{} {}\n", series, value);
  }
  const auto again = parse_metrics_page(written, {.buckets = true});
  CHECK(again.has_value(), "{}", again ? "" : again.error().message);
  CHECK(*again == *samples);
  return 0;
}
