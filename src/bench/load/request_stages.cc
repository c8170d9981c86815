#include "bench/load/request_stages.h"

#include <algorithm>
#include <optional>

namespace saccade::bench {
namespace {

class Timeline {
 public:
  void add(std::string_view name, double begin, double end) {
    if (end > begin) stages.push_back({name, begin, end});
  }
  std::vector<RequestStage> stages;
};

}  // namespace

RequestStages request_stages(const RunLog& log, const RequestRecord& record) {
  Timeline line;
  const double start = seconds(record.start);
  const double end = seconds(record.end);
  line.add("client queue", record.scheduled == kNever ? start : seconds(record.scheduled), start);

  const auto first_token = stage_at(log, record, "first_token");
  const auto finished = stage_at(log, record, "finished");
  if (first_token && finished) {
    const double arrival = record.sent == kNever ? start : seconds(record.sent);
    // Some servers give instants of their own clock instead of seconds since the arrival.
    const double zero = stage_at(log, record, "arrival").value_or(0);
    const auto at = [&](std::string_view name, double otherwise) {
      const auto told = stage_at(log, record, name);
      return told ? std::clamp(arrival + *told - zero, otherwise, std::max(otherwise, end))
                  : otherwise;
    };
    const double ready = at("preprocessed", at("media_done", arrival));
    const double encode_begin = at("encode_start", ready);
    const double encode_end = at("encode_end", encode_begin);
    const double scheduled = at("first_scheduled", encode_end);
    const double first = at("first_token", scheduled);
    line.add("media", arrival, ready);
    line.add("queue", ready, encode_begin);
    line.add("encode", encode_begin, encode_end);
    line.add("queue", encode_end, scheduled);
    line.add("prefill", scheduled, first);
    line.add("decode", first, at("finished", first));
    return {std::move(line.stages), true};
  }
  const Nanos first_output =
      stream_instants(log.events_of(static_cast<std::size_t>(&record - log.requests.data())))
          .first_output;
  if (first_output == kNever) {
    line.add("failed", start, end);
  } else {
    line.add("first token", start, seconds(first_output));
    line.add("decode", seconds(first_output), end);
  }
  return {std::move(line.stages), false};
}

}  // namespace saccade::bench
