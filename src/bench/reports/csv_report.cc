#include "bench/reports/csv_report.h"

#include <fmt/format.h>

#include <numeric>

namespace saccade::bench {
namespace {

// A line of fields. Text is quoted where it must be.
class CsvLine {
 public:
  explicit CsvLine(std::string& out) : out_(out) {}
  ~CsvLine() { out_ += '\n'; }
  CsvLine(const CsvLine&) = delete;
  CsvLine& operator=(const CsvLine&) = delete;

  void text(std::string_view field) {
    separate();
    if (field.find_first_of(",\"\r\n") == std::string_view::npos) {
      out_ += field;
      return;
    }
    out_ += '"';
    for (const char c : field) {
      if (c == '"') out_ += '"';
      out_ += c;
    }
    out_ += '"';
  }
  void number(std::int64_t value) { text(fmt::to_string(value)); }
  void count(std::optional<std::int64_t> value) { value ? number(*value) : text(""); }
  void known(std::int32_t value) { value == kUnknownTokens ? text("") : number(value); }
  void ms(std::optional<double> seconds_value) {
    seconds_value ? text(fmt::format("{:.6f}", *seconds_value * 1e3)) : text("");
  }
  void instant(Nanos at) { at == kNever ? text("") : text(fmt::format("{:.9f}", seconds(at))); }

 private:
  void separate() {
    if (begun_) out_ += ',';
    begun_ = true;
  }
  std::string& out_;
  bool begun_ = false;
};

std::optional<double> mean_itl(const RunMetrics& metrics, const RequestMetrics& m) {
  const auto values = metrics.itl_of(m);
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string image_sizes(const PromptRecord& prompt) {
  std::string sizes;
  for (const PromptImage& image : prompt.images)
    sizes += fmt::format("{}{}x{}", sizes.empty() ? "" : " ", image.width, image.height);
  return sizes;
}

void append_request(std::string& out, const RunLog& log, const RunMetrics& metrics,
                    const RequestMetrics& m) {
  const RequestRecord& r = log.requests[m.position];
  const PromptRecord& prompt = log.prompts[r.prompt];
  CsvLine line(out);
  line.number(r.index);
  line.text(prompt.row_id);
  line.text(prompt.label);
  line.number(r.conversation);
  line.number(r.turn);
  line.number(m.success);
  line.text(name_of(m.error));
  line.number(r.status);
  line.text(name_of(r.finish_reason));
  for (const Nanos at : {r.scheduled, r.start, r.end}) line.instant(at);
  for (const std::optional<double> value :
       {std::optional(m.client_queue), std::optional(m.lateness), m.connect, m.upload,
        m.first_event, m.ttft, m.ttft_from_schedule, m.tpot, mean_itl(metrics, m), m.e2el,
        m.e2el_from_schedule})
    line.ms(value);
  line.count(m.input_tokens);
  line.count(m.image_tokens);
  line.known(r.cached_tokens);
  line.count(m.output_tokens);
  line.text(name_of(m.output_source));
  line.number(static_cast<std::int64_t>(r.body_bytes));
  line.number(static_cast<std::int64_t>(r.response_bytes));
  line.text(image_sizes(prompt));
}

}  // namespace

std::string requests_csv(const RunLog& log, const RunMetrics& metrics) {
  std::string out =
      "request,row,label,conversation,turn,success,error,status,finish_reason,scheduled_s,start_s,"
      "end_s,client_queue_ms,lateness_ms,connect_ms,upload_ms,first_event_ms,ttft_ms,"
      "ttft_from_schedule_ms,tpot_ms,mean_itl_ms,e2el_ms,e2el_from_schedule_ms,input_tokens,"
      "image_tokens,cached_tokens,output_tokens,counted_by,body_bytes,response_bytes,images\n";
  for (const RequestMetrics& m : metrics.requests) append_request(out, log, metrics, m);
  return out;
}

}  // namespace saccade::bench
