// Writing the run log: docs/run-format.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "bench/datasets/text_file.h"
#include "bench/log/run_log.h"

namespace saccade::bench {
namespace {

// Members with their default value are left out.

void put_text(json::JsonWriter& w, std::string_view name, std::string_view text) {
  if (!text.empty()) w.member(name, text);
}

void put_int(json::JsonWriter& w, std::string_view name, std::int64_t number,
             std::int64_t left_out) {
  if (number != left_out) w.member(name, number);
}

// JSON has no infinity: "inf" as a string. NaN is never written.
void put_number(json::JsonWriter& w, std::string_view name, double number) {
  if (std::isinf(number) && number > 0)
    w.member(name, "inf");
  else if (std::isfinite(number))
    w.member(name, number);
}

void put_instant(json::JsonWriter& w, Nanos instant) {
  instant == kNever ? w.null() : w.value(instant);
}

void put_pairs(json::JsonWriter& w, std::string_view name, const StringPairs& pairs) {
  if (pairs.empty()) return;
  w.key(name);
  w.begin_object();
  for (const auto& [key, text] : pairs) w.member(key, std::string_view(text));
  w.end_object();
}

void write_header(json::JsonWriter& w, const RunHeader& h) {
  w.begin_object();
  w.member("saccade_run", kRunFormatVersion);
  w.key("argv");
  w.begin_array();
  for (const auto& word : h.argv) w.value(std::string_view(word));
  w.end_array();
  w.member("seed", h.seed);
  put_text(w, "tool_version", h.tool_version);
  put_int(w, "origin_wall_ns", h.origin_wall_ns, 0);
  w.key("host");
  w.begin_object();
  put_text(w, "name", h.host.name);
  put_text(w, "cpu", h.host.cpu);
  put_int(w, "cores", h.host.cores, 0);
  put_int(w, "memory_bytes", h.host.memory_bytes, 0);
  put_text(w, "kernel", h.host.kernel);
  w.end_object();
  put_text(w, "backend", h.backend);
  put_text(w, "base_url", h.base_url);
  put_text(w, "endpoint", h.endpoint);
  put_text(w, "model", h.model);
  put_text(w, "tokenizer", h.tokenizer);
  put_text(w, "label", h.label);
  put_text(w, "server_version", h.server_version);
  put_pairs(w, "server_parameters", h.server_parameters);
  put_text(w, "dataset", h.dataset);
  put_text(w, "dataset_path", h.dataset_path);
  put_text(w, "dataset_hash", h.dataset_hash);
  put_text(w, "arrivals", h.arrivals);
  put_text(w, "arrival_hash", h.arrival_hash);
  if (!std::isinf(h.request_rate)) put_number(w, "request_rate", h.request_rate);
  if (h.burstiness != 1.0) put_number(w, "burstiness", h.burstiness);
  put_int(w, "max_concurrency", h.max_concurrency, 0);
  if (!h.ramp_up_strategy.empty()) {
    w.member("ramp_up_strategy", std::string_view(h.ramp_up_strategy));
    put_number(w, "ramp_up_start_rps", h.ramp_up_start_rps);
    put_number(w, "ramp_up_end_rps", h.ramp_up_end_rps);
  }
  put_int(w, "num_prompts", h.num_prompts, 0);
  if (h.usage_requested) w.member("usage_requested", true);
  put_pairs(w, "metadata", h.metadata);
  w.end_object();
}

void write_prompt(json::JsonWriter& w, std::size_t index, const PromptRecord& p) {
  w.begin_object();
  w.member("prompt", static_cast<std::int64_t>(index));
  put_text(w, "row", p.row_id);
  put_text(w, "hash", p.content_hash);
  put_text(w, "label", p.label);
  put_int(w, "text_tokens", p.text_tokens, kUnknownTokens);
  put_int(w, "image_tokens", p.predicted_image_tokens, kUnknownTokens);
  if (!p.images.empty()) {
    w.key("images");
    w.begin_array();
    for (const PromptImage& image : p.images) {
      w.begin_array();
      w.value(image.width);
      w.value(image.height);
      w.value(image.bytes);
      w.value(std::string_view(image.sha256));
      w.end_array();
    }
    w.end_array();
  }
  put_text(w, "text", p.text);
  put_text(w, "reference", p.reference);
  w.end_object();
}

void write_usage(json::JsonWriter& w, const RequestRecord& r) {
  const std::array counts = {r.prompt_tokens, r.completion_tokens, r.cached_tokens, r.image_tokens,
                             r.reasoning_tokens};
  if (std::all_of(counts.begin(), counts.end(), [](auto c) { return c == kUnknownTokens; })) return;
  w.key("usage");
  w.begin_array();
  for (const std::int32_t count : counts) count == kUnknownTokens ? w.null() : w.value(count);
  w.end_array();
}

void write_request(json::JsonWriter& w, const RunLog& log, std::size_t position) {
  const RequestRecord& r = log.requests[position];
  w.begin_object();
  w.member("request", std::uint64_t{r.index});
  w.member("prompt", std::uint64_t{r.prompt});
  put_int(w, "conversation", r.conversation, -1);
  put_int(w, "turn", r.turn, 0);
  w.key("times");
  w.begin_array();
  for (const Nanos instant :
       {r.scheduled, r.admitted, r.start, r.connected, r.sent, r.headers, r.end})
    put_instant(w, instant);
  w.end_array();
  put_int(w, "status", r.status, 0);
  if (r.failure != TransportFailure::kNone) w.member("failure", name_of(r.failure));
  put_text(w, "finish_reason", name_of(r.finish_reason));
  if (!r.streamed) w.member("streamed", false);
  if (r.reused_connection) w.member("reused_connection", true);
  if (r.warmup) w.member("warmup", true);
  write_usage(w, r);
  put_int(w, "retokenized", r.retokenized_tokens, kUnknownTokens);
  put_int(w, "max_tokens", r.max_tokens, kUnknownTokens);
  put_int(w, "body_bytes", static_cast<std::int64_t>(r.body_bytes), 0);
  put_int(w, "response_bytes", static_cast<std::int64_t>(r.response_bytes), 0);
  put_text(w, "answer", log.text_of(r.answer));
  put_text(w, "reasoning", log.text_of(r.reasoning));
  put_text(w, "error", log.text_of(r.error));
  put_text(w, "first_event", log.text_of(r.first_event));
  if (r.num_stages > 0) {
    w.key("stages");
    w.begin_object();
    for (const StageTime& stage : log.stages_of(r)) put_number(w, stage.name, stage.seconds);
    w.end_object();
  }
  if (const auto events = log.events_of(position); !events.empty()) {
    w.key("events");
    w.begin_array();
    Nanos before = 0;
    for (const LoggedEvent& event : events) {
      w.value(event.at - before);
      w.value(std::uint64_t{event.bytes});
      w.value(event.tokens);
      w.value(static_cast<int>(event.kinds));
      before = event.at;
    }
    w.end_array();
  }
  w.end_object();
}

void write_sample(json::JsonWriter& w, const Sample& sample) {
  w.begin_object();
  w.key("sample");
  put_instant(w, sample.at);
  w.member("source", std::string_view(sample.source));
  w.key("values");
  w.begin_object();
  for (const auto& [name, number] : sample.values) put_number(w, name, number);
  w.end_object();
  w.end_object();
}

void write_client(json::JsonWriter& w, const ClientLoad& c) {
  w.begin_object();
  w.key("client");
  w.begin_object();
  w.member("threads", c.threads);
  put_number(w, "wall_seconds", c.wall_seconds);
  put_number(w, "cpu_seconds", c.cpu_seconds);
  w.member("connects", c.connects);
  w.member("bytes_sent", c.bytes_sent);
  w.member("bytes_received", c.bytes_received);
  w.member("loop_lag_p50", std::int64_t{c.loop_lag_p50});
  w.member("loop_lag_p99", std::int64_t{c.loop_lag_p99});
  w.member("loop_lag_max", std::int64_t{c.loop_lag_max});
  w.end_object();
  w.end_object();
}

}  // namespace

std::string to_text(const RunLog& log) {
  std::string out;
  const auto line = [&](auto&& write) {
    json::JsonWriter w(out);
    write(w);
    out += '\n';
  };
  line([&](auto& w) { write_header(w, log.header); });
  for (std::size_t i = 0; i < log.prompts.size(); ++i)
    line([&](auto& w) { write_prompt(w, i, log.prompts[i]); });
  for (std::size_t i = 0; i < log.requests.size(); ++i)
    line([&](auto& w) { write_request(w, log, i); });
  for (const Sample& sample : log.samples) line([&](auto& w) { write_sample(w, sample); });
  line([&](auto& w) { write_client(w, log.client); });
  if (log.truncated) return out;
  line([&](auto& w) {
    w.begin_object();
    w.member("end", std::string_view(log.stop_reason));
    w.member("requests", static_cast<std::int64_t>(log.requests.size()));
    w.end_object();
  });
  return out;
}

Result<void> write_run_log(const RunLog& log, const std::string& path) {
  return write_text_file(path, to_text(log));
}

}  // namespace saccade::bench
