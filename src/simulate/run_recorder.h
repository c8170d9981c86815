// What comes of the requests, as a run log: the same that `saccade bench` writes of a real server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/log/run_log.h"
#include "engine/request.h"
#include "simulate/workload.h"

namespace saccade::simulate {

// Which tokens have an event of their own.
enum class LoggedTokens : std::uint8_t {
  kEvery,
  kEnds,  // the first, and one for all others with the last: gaps between tokens are not known
};

struct Answered {
  std::int64_t prompt_tokens = 0;
  std::int64_t image_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t output_tokens = 0;
  RequestTimes times;
};

class RunRecorder {
 public:
  RunRecorder(const Workload& workload, LoggedTokens tokens, Nanos delivery);

  // A token of request `index` of the workload is there.
  void token(std::uint32_t index, Nanos at) {
    if (tokens_ == LoggedTokens::kEvery) events_.event(index, at + delivery_, 0, 1, kTokenKinds);
  }
  void finished(std::uint32_t index, const Answered& answer);
  // status: of HTTP; 200: its stream broke off.
  void refused(std::uint32_t index, Nanos at, int status, const std::string& why);

  std::size_t ended() const { return ended_; }
  // Once, when all have ended.
  bench::RunLog take(bench::RunHeader header);

 private:
  static constexpr bench::EventKinds kTokenKinds = bench::kContentEvent | bench::kChoicesEvent;
  // What is known of a request that ends now, of any end.
  bench::RequestRecord end_of(std::uint32_t index);

  const Workload& workload_;
  LoggedTokens tokens_;
  Nanos delivery_;
  bench::Recorder events_{0};
  std::vector<bool> has_ended_;
  std::size_t ended_ = 0;
};

}  // namespace saccade::simulate
