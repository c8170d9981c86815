// The one line that says how a run goes: rewritten in place on a terminal, now and then a new line
// otherwise.
#pragma once

#include <cstdio>
#include <string>

#include "bench/load/load_runner.h"

namespace saccade::bench {

// "[ 12.3 s] 240/1000 sent  asked 20.0/s real 19.8/s  in flight 12  failed 0  TTFT ms p50 50.1 p99
// 60.2  1200 tok/s  8 s left". `before` is an earlier state: rates are over the time between.
std::string progress_line(const LoadProgress& now, const LoadProgress& before);

// One thread.
class LiveView {
 public:
  // Terminals get a line that changes; files and pipes a line every `plain_period`.
  explicit LiveView(std::FILE* to, Nanos plain_period = 5 * kSecond);
  ~LiveView();  // ends the line

  void show(const LoadProgress& progress);

 private:
  std::FILE* to_;
  bool terminal_;
  Nanos plain_period_;
  Nanos next_plain_ = 0;
  LoadProgress before_;  // rates are from here on
  LoadProgress later_;   // becomes before_ when the window ends, so that no window is short
  Nanos next_window_ = 0;
  std::size_t shown_ = 0;  // characters of the line that is there
};

}  // namespace saccade::bench
