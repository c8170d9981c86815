// Reading traces. A file may come from anywhere: a row that is not understood ends the reading and
// is named.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

#include "base/json.h"
#include "bench/datasets/text_file.h"
#include "bench/traces/trace.h"

namespace saccade::bench {
namespace {

constexpr double kMaxTraceSeconds = 3e9;  // a century: keeps nanoseconds far inside 64 bits
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

Result<Nanos> parse_seconds(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return fail(ErrorCode::kInvalid, "{} '{}' is not a number of seconds", what, text);
  if (value < 0 || value > kMaxTraceSeconds)
    return fail(ErrorCode::kInvalid, "{} is {} s, allowed are 0 to {}", what, text,
                kMaxTraceSeconds);
  return std::llround(value * 1e9);
}

Result<std::int32_t> parse_count(std::string_view text, std::string_view what) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0 || value > kMaxCount)
    return fail(ErrorCode::kInvalid, "{} '{}' is not a count", what, text);
  return static_cast<std::int32_t>(value);
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// Days since the Unix epoch of a date in the Gregorian calendar.
std::int64_t days_from_civil(std::int64_t year, std::int64_t month, std::int64_t day) {
  year -= month <= 2;
  const std::int64_t era = year / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
         719'468;
}

std::optional<std::int64_t> digits_at(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text.substr(at, count)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// "2023-11-16 18:15:46.6805900", with T for the blank, up to 9 digits of a second, and Z or +00:00
// behind it.
Result<Nanos> parse_stamp(std::string_view text) {
  const auto bad = [&] {
    return fail(ErrorCode::kInvalid, "TIMESTAMP '{}' is not of the form 2023-11-16 18:15:46.123",
                text);
  };
  const auto year = digits_at(text, 0, 4);
  const auto month = digits_at(text, 5, 2);
  const auto day = digits_at(text, 8, 2);
  const auto hour = digits_at(text, 11, 2);
  const auto minute = digits_at(text, 14, 2);
  const auto second = digits_at(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return bad();
  if (text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' ||
      text[16] != ':')
    return bad();
  if (*year < 1970 || *year > 2200 || *month < 1 || *month > 12 || *day < 1 || *day > 31 ||
      *hour > 23 || *minute > 59 || *second > 60)
    return bad();
  std::string_view rest = text.substr(19);
  Nanos fraction = 0;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    Nanos unit = kSecond / 10;
    for (; !rest.empty() && rest.front() >= '0' && rest.front() <= '9' && unit > 0; unit /= 10) {
      fraction += (rest.front() - '0') * unit;
      rest.remove_prefix(1);
    }
  }
  if (!rest.empty() && rest != "Z" && rest != "+00:00") return bad();
  const std::int64_t days = days_from_civil(*year, *month, *day);
  return ((days * 24 + *hour) * 60 + *minute) * 60 * kSecond + *second * kSecond + fraction;
}

// Turns one kind of line into rows. `line` is trimmed and not empty.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual Result<void> read(std::string_view line, Trace& into) = 0;
};

class GapReader final : public RowReader {
 public:
  Result<void> read(std::string_view line, Trace& into) override {
    TRY(const Nanos gap, parse_seconds(line, "the gap"));
    at_ += gap;
    if (seconds(at_) > kMaxTraceSeconds)
      return fail(ErrorCode::kInvalid, "the gaps add up to over {} s", kMaxTraceSeconds);
    TraceRow row;
    row.at = at_;
    into.rows.push_back(row);
    return {};
  }

 private:
  Nanos at_ = 0;
};

// Where a CSV's columns are; found by name in its header line.
class CsvReader final : public RowReader {
 public:
  static Result<CsvReader> from_header(std::string_view line, bool azure) {
    CsvReader reader;
    reader.azure_ = azure;
    const auto names = split(line);
    reader.columns_ = names.size();
    const auto column = [&](std::string_view name) -> std::optional<std::size_t> {
      const auto it = std::find(names.begin(), names.end(), name);
      if (it == names.end()) return std::nullopt;
      return static_cast<std::size_t>(it - names.begin());
    };
    const std::string_view input = azure ? "ContextTokens" : "Request tokens";
    const std::string_view output = azure ? "GeneratedTokens" : "Response tokens";
    if (!column(input) || !column(output))
      return fail(ErrorCode::kInvalid, "the header has no columns '{}' and '{}'", input, output);
    reader.stamp_ = *column(azure ? "TIMESTAMP" : "Timestamp");
    reader.input_ = *column(input);
    reader.output_ = *column(output);
    reader.images_ = column("NumImages");
    return reader;
  }

  Result<void> read(std::string_view line, Trace& into) override {
    const auto fields = split(line);
    if (fields.size() != columns_)
      return fail(ErrorCode::kInvalid, "{} columns, the header has {}", fields.size(), columns_);
    TraceRow row;
    TRY(row.at, azure_ ? parse_stamp(fields[stamp_]) : parse_seconds(fields[stamp_], "Timestamp"));
    TRY(row.input_tokens, parse_count(fields[input_], "the input tokens"));
    TRY(row.output_tokens, parse_count(fields[output_], "the output tokens"));
    if (images_) {
      TRY(row.num_images, parse_count(fields[*images_], "NumImages"));
    }
    into.rows.push_back(row);
    return {};
  }

 private:
  bool azure_ = false;
  std::size_t columns_ = 0;
  std::size_t stamp_ = 0;
  std::size_t input_ = 0;
  std::size_t output_ = 0;
  std::optional<std::size_t> images_;
};

class JsonReader final : public RowReader {
 public:
  explicit JsonReader(const TraceLabels& labels) : labels_(labels) {}

  Result<void> read(std::string_view line, Trace& into) override {
    TRY(const json::value v, json::parse(line));
    if (!v.is_object()) return fail(ErrorCode::kInvalid, "not a JSON object");
    const json::object& object = v.get_object();
    TRY(const double stamp, json::get_double(object, labels_.timestamp));
    const double at = stamp * labels_.timestamp_unit_s;
    if (!(at >= 0) || at > kMaxTraceSeconds)
      return fail(ErrorCode::kInvalid, "'{}' is {} s, allowed are 0 to {}", labels_.timestamp, at,
                  kMaxTraceSeconds);
    TraceRow row;
    row.at = std::llround(at * 1e9);
    TRY(row.input_tokens, count(object, labels_.input_length));
    TRY(row.output_tokens, count(object, labels_.output_length));
    if (json::find(object, "num_images") != nullptr) {
      TRY(row.num_images, count(object, "num_images"));
    }
    row.first_hash = into.hash_ids.size();
    if (const json::value* ids = json::find(object, labels_.hash_ids)) {
      if (!ids->is_array())
        return fail(ErrorCode::kInvalid, "'{}' is {}, an array is required", labels_.hash_ids,
                    json::kind_name(*ids));
      for (const json::value& id : ids->get_array()) {
        if (!id.is_int64())
          return fail(ErrorCode::kInvalid, "'{}' holds {}, integers are required", labels_.hash_ids,
                      json::kind_name(id));
        into.hash_ids.push_back(id.get_int64());
      }
    }
    row.num_hashes = static_cast<std::uint32_t>(into.hash_ids.size() - row.first_hash);
    into.rows.push_back(row);
    return {};
  }

 private:
  static Result<std::int32_t> count(const json::object& object, std::string_view name) {
    TRY(const std::int64_t value, json::get_int(object, name));
    if (value < 0 || value > kMaxCount)
      return fail(ErrorCode::kInvalid, "'{}' is {}, not a count", name, value);
    return static_cast<std::int32_t>(value);
  }

  TraceLabels labels_;
};

// The reader for a trace whose first line is `line`; a header holds no row.
struct Recognised {
  TraceFormat format;
  std::unique_ptr<RowReader> reader;
  bool is_header;
};

Result<Recognised> recognise(std::string_view line, const TraceLabels& labels) {
  if (line.front() == '{')
    return Recognised{TraceFormat::kMooncake, std::make_unique<JsonReader>(labels), false};
  const auto names = split(line);
  for (const auto& [stamp, format] :
       {std::pair{"TIMESTAMP", TraceFormat::kAzure}, {"Timestamp", TraceFormat::kBurstGpt}}) {
    if (std::find(names.begin(), names.end(), stamp) == names.end()) continue;
    TRY(CsvReader reader, CsvReader::from_header(line, format == TraceFormat::kAzure));
    return Recognised{format, std::make_unique<CsvReader>(std::move(reader)), true};
  }
  if (names.size() == 1 && parse_seconds(line, "").has_value())
    return Recognised{TraceFormat::kGaps, std::make_unique<GapReader>(), false};
  return fail(ErrorCode::kInvalid,
              "neither a gap in seconds, nor a CSV header with TIMESTAMP or Timestamp, nor a JSON "
              "object");
}

void keep_note(std::string_view comment, Trace& trace) {
  const std::string_view text = trimmed(comment.substr(1));
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return;
  trace.notes.emplace_back(trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)));
}

// Sorted, and stamps counted from the first arrival.
void rebase(Trace& trace) {
  std::stable_sort(trace.rows.begin(), trace.rows.end(),
                   [](const TraceRow& a, const TraceRow& b) { return a.at < b.at; });
  if (trace.format == TraceFormat::kGaps) return;
  const Nanos first = trace.rows.front().at;
  for (TraceRow& row : trace.rows) row.at -= first;
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, std::string_view name, const TraceLabels& labels) {
  Trace trace;
  std::unique_ptr<RowReader> reader;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t length = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, length));
    text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
    if (line.empty()) continue;
    if (line.front() == '#') {
      keep_note(line, trace);
      continue;
    }
    const auto here = [&] { return fmt::format("{}:{}", name, number); };
    if (reader == nullptr) {
      auto recognised = recognise(line, labels);
      if (!recognised) return fail_within(here(), std::move(recognised).error());
      trace.format = recognised->format;
      reader = std::move(recognised->reader);
      if (recognised->is_header) continue;
    }
    if (auto read = reader->read(line, trace); !read)
      return fail_within(here(), std::move(read).error());
  }
  if (trace.rows.empty()) return fail(ErrorCode::kInvalid, "{}: the trace has no requests", name);
  rebase(trace);
  if (seconds(trace.rows.back().at) > kMaxTraceSeconds) {
    return fail(ErrorCode::kInvalid, "{}: the arrivals span {:.0f} s, allowed are {:.0f}", name,
                seconds(trace.rows.back().at), kMaxTraceSeconds);
  }
  return trace;
}

Result<Trace> read_trace(const std::string& path, const TraceLabels& labels) {
  TRY(const std::string text, read_text_file(path));
  return parse_trace(text, path, labels);
}

}  // namespace saccade::bench
