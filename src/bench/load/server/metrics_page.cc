#include "bench/load/server/metrics_page.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace saccade::bench {
namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}
bool is_name(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Length of `{label="value",...}` with escapes, or 0 when it does not end well.
std::size_t labels_length(std::string_view text) {
  bool quoted = false;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (quoted && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      quoted = !quoted;
    else if (text[i] == '}' && !quoted)
      return i + 1;
  }
  return 0;
}

std::string_view skip_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

std::optional<double> parse_value(std::string_view word) {
  if (word == "+Inf" || word == "Inf" || word == "-Inf")
    return std::numeric_limits<double>::infinity();
  if (word == "NaN" || word == "Nan") return std::nan("");
  if (word.starts_with('+')) word.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || code == std::errc::invalid_argument || end != word.data() + word.size())
    return std::nullopt;
  return code == std::errc::result_out_of_range ? std::nan("") : value;
}

// name, labels, value [timestamp]
Result<std::pair<std::string_view, double>> parse_sample(std::string_view line) {
  std::size_t series = 0;
  if (!is_name_start(line.front()))
    return fail(ErrorCode::kInvalid, "a series begins with '{}'", line.front());
  while (series < line.size() && is_name(line[series])) ++series;
  if (series < line.size() && line[series] == '{') {
    const std::size_t labels = labels_length(line.substr(series));
    if (labels == 0) return fail(ErrorCode::kInvalid, "labels do not end");
    series += labels;
  }
  const std::string_view rest = skip_blanks(line.substr(series));
  const std::size_t word = std::min(rest.find_first_of(" \t"), rest.size());
  const auto value = parse_value(rest.substr(0, word));
  if (!value) return fail(ErrorCode::kInvalid, "'{}' is not a value", rest.substr(0, 40));
  std::string_view stamp = skip_blanks(rest.substr(word));
  while (!stamp.empty() && is_blank(stamp.back())) stamp.remove_suffix(1);
  if (!stamp.empty() && stamp.find_first_not_of("-0123456789.#") != std::string_view::npos &&
      stamp.front() != '#')  // OpenMetrics puts exemplars there
    return fail(ErrorCode::kInvalid, "'{}' is not a timestamp", stamp.substr(0, 40));
  return std::pair{line.substr(0, series), *value};
}

bool is_bucket(std::string_view series) {
  const std::string_view name = series.substr(0, series.find('{'));
  return name.ends_with("_bucket");
}

}  // namespace

Result<std::vector<std::pair<std::string, double>>> parse_metrics_page(
    std::string_view page, const MetricsPageLimits& limits) {
  std::vector<std::pair<std::string, double>> samples;
  for (std::size_t number = 1; !page.empty(); ++number) {
    const std::size_t length = std::min(page.find('\n'), page.size());
    std::string_view line = page.substr(0, length);
    page.remove_prefix(std::min(length + 1, page.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = skip_blanks(line);
    if (line.empty() || line.front() == '#') continue;
    const auto sample = parse_sample(line);
    if (!sample) return fail_within(fmt::format("line {}", number), sample.error());
    if (!std::isfinite(sample->second) || (!limits.buckets && is_bucket(sample->first))) continue;
    if (samples.size() == limits.max_series)
      return fail(ErrorCode::kTooLarge, "the metrics page has over {} series", limits.max_series);
    samples.emplace_back(sample->first, sample->second);
  }
  return samples;
}

}  // namespace saccade::bench
