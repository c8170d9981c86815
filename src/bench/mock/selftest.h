// Does the load generator measure what is there? A mock server of known behaviour is measured, and
// every figure is compared with what was programmed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace saccade::bench {

struct SelftestSettings {
  double seconds = 3;  // of each measurement
  int threads = 1;     // of the client
  // "http://host:port" of a `saccade bench mock`, on another core say: then its rate alone is
  // measured, with answers of `tokens`. Empty: every check, against servers in this process.
  std::string server;
  int tokens = 16;
  int concurrency = 64;
};

struct SelftestRow {
  std::string what;
  double measured = 0;
  std::string unit;
  std::string expected;  // "50 +- 0.2", ">= 20000"; empty: reported only
  bool ok = true;
};
std::string to_line(const SelftestRow& row);

// `on_row` hears each row as soon as it is there. An error when a check could not be run at all.
Result<std::vector<SelftestRow>> run_selftest(
    const SelftestSettings& settings, const std::function<void(const SelftestRow&)>& on_row);

}  // namespace saccade::bench
