#include "bench/traces/trace.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json_scopes.h"

namespace saccade::bench {
namespace {

constexpr std::array<std::pair<TraceFormat, std::string_view>, 4> kFormats = {{
    {TraceFormat::kGaps, "gaps"},
    {TraceFormat::kAzure, "azure"},
    {TraceFormat::kBurstGpt, "burstgpt"},
    {TraceFormat::kMooncake, "mooncake"},
}};

Nanos rounded_to_ms(Nanos instant) {
  return (instant + kMillisecond / 2) / kMillisecond * kMillisecond;
}

bool has_lengths(const Trace& trace) {
  for (const TraceRow& row : trace.rows)
    if (row.input_tokens < 0 || row.output_tokens < 0) return false;
  return true;
}

bool has_images(const Trace& trace) {
  for (const TraceRow& row : trace.rows)
    if (row.num_images >= 0) return true;
  return false;
}

void append_gaps(const Trace& trace, std::string& out) {
  Nanos before = 0;
  for (const TraceRow& row : trace.rows) {
    const Nanos at = rounded_to_ms(row.at);
    const Nanos gap_ms = (at - before) / kMillisecond;
    out += fmt::format("{}.{:03}\n", gap_ms / 1'000, gap_ms % 1'000);
    before = at;
  }
}

// The stamps count from the Unix epoch: a trace keeps no calendar.
void append_azure(const Trace& trace, std::string& out) {
  const bool images = has_images(trace);
  out += images ? "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
                : "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (const TraceRow& row : trace.rows) {
    const Nanos seconds_part = row.at / kSecond;
    const Nanos days = seconds_part / 86'400;
    const Nanos of_day = seconds_part % 86'400;
    out += fmt::format("1970-01-{:02} {:02}:{:02}:{:02}.{:09},", days + 1, of_day / 3'600,
                       of_day / 60 % 60, of_day % 60, row.at % kSecond);
    if (images) out += fmt::format("{},", std::max(row.num_images, 0));
    out += fmt::format("{},{}\n", row.input_tokens, row.output_tokens);
  }
}

void append_burst_gpt(const Trace& trace, std::string& out) {
  out += "Timestamp,Request tokens,Response tokens\n";
  for (const TraceRow& row : trace.rows)
    out += fmt::format("{}.{:09},{},{}\n", row.at / kSecond, row.at % kSecond, row.input_tokens,
                       row.output_tokens);
}

void append_mooncake(const Trace& trace, std::string& out) {
  for (const TraceRow& row : trace.rows) {
    json::JsonWriter w(out);
    w.begin_object();
    w.member("timestamp", std::int64_t{rounded_to_ms(row.at) / kMillisecond});
    w.member("input_length", row.input_tokens);
    w.member("output_length", row.output_tokens);
    json::array_member(w, "hash_ids", trace.hashes_of(row));
    w.end_object();
    out += '\n';
  }
}

}  // namespace

std::string_view name_of(TraceFormat format) {
  return kFormats.at(static_cast<std::size_t>(format)).second;
}

Result<TraceFormat> trace_format_named(std::string_view name) {
  for (const auto& [format, known] : kFormats)
    if (name == known) return format;
  return fail(ErrorCode::kInvalid,
              "trace format '{}' is not known; known are gaps, azure, burstgpt, mooncake", name);
}

Result<TraceCut> cut(const Trace& trace, const TraceWindow& window) {
  if (!(window.speed > 0) || !std::isfinite(window.speed))
    return fail(ErrorCode::kInvalid, "trace speed {} must be above 0", window.speed);
  if (window.start >= window.end)
    return fail(ErrorCode::kInvalid, "the trace window ends at {} s, before its start at {} s",
                seconds(window.end), seconds(window.start));
  TraceCut result;
  result.trace.format = trace.format;
  result.trace.notes = trace.notes;
  for (const TraceRow& row : trace.rows) {
    if (row.at < window.start || row.at >= window.end) continue;
    if (result.trace.rows.size() == window.limit) break;
    TraceRow kept = row;
    const double at = static_cast<double>(row.at - window.start) / window.speed;
    if (at > 9e18)
      return fail(ErrorCode::kInvalid, "at speed {} the trace would take {} s", window.speed,
                  at / 1e9);
    kept.at = std::llround(at);
    if (kept.num_images > window.max_images) {
      kept.num_images = window.max_images;
      ++result.clipped_images;
    }
    kept.first_hash = result.trace.hash_ids.size();
    const auto hashes = trace.hashes_of(row);
    result.trace.hash_ids.insert(result.trace.hash_ids.end(), hashes.begin(), hashes.end());
    result.trace.rows.push_back(kept);
  }
  if (result.trace.rows.empty())
    return fail(ErrorCode::kInvalid, "no request of the trace lies between {} s and {} s",
                seconds(window.start), seconds(window.end));
  return result;
}

std::vector<Nanos> due_times(const Trace& trace) {
  std::vector<Nanos> due;
  due.reserve(trace.rows.size());
  for (const TraceRow& row : trace.rows) due.push_back(row.at);
  return due;
}

Result<std::string> format_trace(const Trace& trace, TraceFormat as) {
  if (as != TraceFormat::kGaps && !has_lengths(trace))
    return fail(ErrorCode::kInvalid, "a {} trace holds token counts, and this trace has none",
                name_of(as));
  constexpr Nanos kMonth = Nanos{31} * 86'400 * kSecond;
  if (as == TraceFormat::kAzure && !trace.rows.empty() && trace.rows.back().at >= kMonth)
    return fail(ErrorCode::kTooLarge, "the trace spans {} s, an azure trace is written up to {} s",
                seconds(trace.rows.back().at), seconds(kMonth));
  std::string out;
  for (const auto& [key, text] : trace.notes) out += fmt::format("# {}={}\n", key, text);
  switch (as) {
    case TraceFormat::kGaps:
      append_gaps(trace, out);
      break;
    case TraceFormat::kAzure:
      append_azure(trace, out);
      break;
    case TraceFormat::kBurstGpt:
      append_burst_gpt(trace, out);
      break;
    case TraceFormat::kMooncake:
      append_mooncake(trace, out);
      break;
  }
  return out;
}

}  // namespace saccade::bench
