// Writing the run log: docs/run-format.md.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/json_scopes.h"
#include "bench/datasets/text_file.h"
#include "bench/log/run_log.h"

namespace saccade::bench {
namespace {

using json::array_member;
using json::JsonWriter;
using json::object_member;

// Members with their default value are left out.

void put_text(JsonWriter& w, std::string_view name, std::string_view text) {
  if (!text.empty()) w.member(name, text);
}

void put_int(JsonWriter& w, std::string_view name, std::int64_t number, std::int64_t left_out) {
  if (number != left_out) w.member(name, number);
}

// JSON has no infinity: "inf" as a string. NaN is never written.
void put_number(JsonWriter& w, std::string_view name, double number) {
  if (std::isinf(number) && number > 0)
    w.member(name, "inf");
  else if (std::isfinite(number))
    w.member(name, number);
}

void put_instant(JsonWriter& w, Nanos instant) { instant == kNever ? w.null() : w.value(instant); }

void put_pairs(JsonWriter& w, std::string_view name, const StringPairs& pairs) {
  if (pairs.empty()) return;
  object_member(w, name, [&] {
    for (const auto& [key, text] : pairs) w.member(key, text);
  });
}

void write_header(JsonWriter& w, const RunHeader& h) {
  w.member("saccade_run", kRunFormatVersion);
  array_member(w, "argv", h.argv);
  w.member("seed", h.seed);
  put_text(w, "tool_version", h.tool_version);
  put_int(w, "origin_wall_ns", h.origin_wall_ns, 0);
  object_member(w, "host", [&] {
    put_text(w, "name", h.host.name);
    put_text(w, "cpu", h.host.cpu);
    put_int(w, "cores", h.host.cores, 0);
    put_int(w, "memory_bytes", h.host.memory_bytes, 0);
    put_text(w, "kernel", h.host.kernel);
  });
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
    w.member("ramp_up_strategy", h.ramp_up_strategy);
    put_number(w, "ramp_up_start_rps", h.ramp_up_start_rps);
    put_number(w, "ramp_up_end_rps", h.ramp_up_end_rps);
  }
  put_int(w, "num_prompts", h.num_prompts, 0);
  if (h.usage_requested) w.member("usage_requested", true);
  if (h.cache_reset) w.member("cache_reset", true);
  put_pairs(w, "metadata", h.metadata);
}

void write_prompt(JsonWriter& w, std::size_t index, const PromptRecord& p) {
  w.member("prompt", static_cast<std::int64_t>(index));
  put_text(w, "row", p.row_id);
  put_text(w, "hash", p.content_hash);
  put_text(w, "label", p.label);
  put_int(w, "text_tokens", p.text_tokens, kUnknownTokens);
  put_int(w, "image_tokens", p.predicted_image_tokens, kUnknownTokens);
  if (!p.images.empty())
    array_member(w, "images", p.images, [&w](const PromptImage& image) {
      w.begin_array();
      w.value(image.width);
      w.value(image.height);
      w.value(image.bytes);
      w.value(image.sha256);
      w.end_array();
    });
  put_text(w, "text", p.text);
  put_text(w, "reference", p.reference);
}

void write_usage(JsonWriter& w, const RequestRecord& r) {
  const std::array counts = {r.prompt_tokens, r.completion_tokens, r.cached_tokens, r.image_tokens,
                             r.reasoning_tokens};
  if (std::all_of(counts.begin(), counts.end(), [](auto c) { return c == kUnknownTokens; })) return;
  array_member(w, "usage", counts,
               [&w](std::int32_t count) { count == kUnknownTokens ? w.null() : w.value(count); });
}

void write_logged_request(JsonWriter& w, const RunLog& log, std::size_t position) {
  const RequestRecord& r = log.requests[position];
  w.member("request", std::uint64_t{r.index});
  w.member("prompt", std::uint64_t{r.prompt});
  put_int(w, "conversation", r.conversation, -1);
  put_int(w, "turn", r.turn, 0);
  array_member(w, "times",
               std::array{r.scheduled, r.admitted, r.start, r.connected, r.sent, r.headers, r.end},
               [&w](Nanos instant) { put_instant(w, instant); });
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
  if (r.num_stages > 0)
    object_member(w, "stages", [&] {
      for (const StageTime& stage : log.stages_of(r)) put_number(w, stage.name, stage.seconds);
    });
  Nanos before = 0;
  if (const auto events = log.events_of(position); !events.empty())
    array_member(w, "events", events, [&](const LoggedEvent& event) {
      w.value(event.at - before);
      w.value(std::uint64_t{event.bytes});
      w.value(event.tokens);
      w.value(static_cast<int>(event.kinds));
      before = event.at;
    });
}

void write_sample(JsonWriter& w, const Sample& sample) {
  w.key("sample");
  put_instant(w, sample.at);
  w.member("source", sample.source);
  object_member(w, "values", [&] {
    for (const auto& [name, number] : sample.values) put_number(w, name, number);
  });
}

void write_client(JsonWriter& w, const ClientLoad& c) {
  w.member("threads", c.threads);
  put_number(w, "wall_seconds", c.wall_seconds);
  put_number(w, "cpu_seconds", c.cpu_seconds);
  w.member("connects", c.connects);
  w.member("bytes_sent", c.bytes_sent);
  w.member("bytes_received", c.bytes_received);
  w.member("loop_lag_p50", std::int64_t{c.loop_lag_p50});
  w.member("loop_lag_p99", std::int64_t{c.loop_lag_p99});
  w.member("loop_lag_max", std::int64_t{c.loop_lag_max});
}

}  // namespace

std::string to_text(const RunLog& log) {
  std::string out;
  const auto line = [&](auto&& members) {
    JsonWriter w(out);
    json::put_object(w, [&] { members(w); });
    out += '\n';
  };
  line([&](auto& w) { write_header(w, log.header); });
  for (std::size_t i = 0; i < log.prompts.size(); ++i)
    line([&](auto& w) { write_prompt(w, i, log.prompts[i]); });
  for (std::size_t i = 0; i < log.requests.size(); ++i)
    line([&](auto& w) { write_logged_request(w, log, i); });
  for (const Sample& sample : log.samples) line([&](auto& w) { write_sample(w, sample); });
  line([&](auto& w) { object_member(w, "client", [&] { write_client(w, log.client); }); });
  if (log.truncated) return out;
  line([&](auto& w) {
    w.member("end", log.stop_reason);
    w.member("requests", static_cast<std::int64_t>(log.requests.size()));
  });
  return out;
}

Result<void> write_run_log(const RunLog& log, const std::string& path) {
  return write_text_file(path, to_text(log));
}

}  // namespace saccade::bench
