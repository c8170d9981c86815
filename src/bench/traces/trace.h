// Request traces: who arrived when, with what lengths. Reading the published formats, cutting and
// writing them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace saccade::bench {

enum class TraceFormat {
  kGaps,      // one number a line: seconds between the request before and this one
  kAzure,     // CSV: TIMESTAMP [NumImages] ContextTokens GeneratedTokens
  kBurstGpt,  // CSV: Timestamp (s), Session ID, Request tokens, Response tokens, ...
  kMooncake,  // JSON lines: timestamp (ms), input_length, output_length, hash_ids
};
std::string_view name_of(TraceFormat format);  // "gaps", "azure", "burstgpt", "mooncake"
Result<TraceFormat> trace_format_named(std::string_view name);

struct TraceRow {
  Nanos at = 0;  // since the first arrival; in a gap file since the origin before the first gap
  std::int32_t input_tokens = -1;   // -1: the trace does not say
  std::int32_t output_tokens = -1;  // as above
  std::int32_t num_images = -1;     // as above
  std::uint32_t num_hashes = 0;     // prefix blocks: Trace::hash_ids
  std::uint64_t first_hash = 0;
};

struct Trace {
  TraceFormat format = TraceFormat::kGaps;
  std::vector<TraceRow> rows;  // sorted by `at`
  std::vector<std::int64_t> hash_ids;
  std::vector<std::pair<std::string, std::string>> notes;  // "# key=value" lines, in order

  std::span<const std::int64_t> hashes_of(const TraceRow& row) const {
    return std::span(hash_ids).subspan(row.first_hash, row.num_hashes);
  }
};

// Names of the members in a JSON-lines trace, and the unit of its timestamps.
struct TraceLabels {
  std::string timestamp = "timestamp";
  std::string input_length = "input_length";
  std::string output_length = "output_length";
  std::string hash_ids = "hash_ids";
  double timestamp_unit_s = 1e-3;
};

// The format is recognised from the first line that is not a comment. Lines that begin with '#' are
// comments; of the form "# key=value" they are kept as notes. A row that cannot be understood is
// kInvalid with `name`, its line and what is wrong; an empty trace likewise.
Result<Trace> parse_trace(std::string_view text, std::string_view name,
                          const TraceLabels& labels = {});
Result<Trace> read_trace(const std::string& path, const TraceLabels& labels = {});

// A part of a trace, replayed faster or slower.
struct TraceWindow {
  Nanos start = 0;  // of trace time; becomes the new origin
  Nanos end = std::numeric_limits<Nanos>::max();
  std::size_t limit = std::numeric_limits<std::size_t>::max();  // rows
  double speed = 1;                                             // 2: gaps half as long
  int max_images = std::numeric_limits<int>::max();
};
struct TraceCut {
  Trace trace;
  std::size_t clipped_images = 0;  // rows that asked for more than max_images
};
Result<TraceCut> cut(const Trace& trace, const TraceWindow& window);

std::vector<Nanos> due_times(const Trace& trace);

// Text of a trace file, notes first. Gap files have millisecond resolution, as have Mooncake's.
// kInvalid when the format needs lengths that the trace does not have.
Result<std::string> format_trace(const Trace& trace, TraceFormat as);

}  // namespace saccade::bench
