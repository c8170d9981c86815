// What one request spent its time on: the server's own stages where it tells them, else the two
// halves that the client sees.
#pragma once

#include <string_view>
#include <vector>

#include "bench/log/run_log.h"
#include "bench/metrics/metrics.h"

namespace saccade::bench {

struct RequestStage {
  // "client queue", "media", "queue", "encode", "prefill", "decode"; without the server's word
  // "first token", "decode"; of a request without output "failed".
  std::string_view name;
  double begin = 0;  // seconds since the run's origin
  double end = 0;
};

struct RequestStages {
  std::vector<RequestStage> stages;  // in order of time, none empty; "queue" may come twice
  bool from_server = false;
};

// The server counts from the arrival of a request, which is put at the instant the client had sent
// it.
RequestStages request_stages(const RunLog& log, const RequestRecord& record);

}  // namespace saccade::bench
