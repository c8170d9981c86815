#include "bench/methods/image_size_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "bench/metrics/metrics.h"

namespace saccade::bench {
namespace {

constexpr std::string_view kVanilla = "vanilla";

std::optional<std::string> metadata_of(const RunLog& run, std::string_view key) {
  const auto found =
      std::ranges::find(run.header.metadata, key, [](const auto& p) { return p.first; });
  if (found == run.header.metadata.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::string without_margins(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

// The growth of a counter of the metrics page over the run, all its labels together.
std::optional<double> growth(const RunLog& run, std::string_view counter) {
  const auto total = [&](const Sample& sample) -> std::optional<double> {
    std::optional<double> sum;
    for (const auto& [name, value] : sample.values) {
      const bool labelled = name.size() > counter.size() && name[counter.size()] == '{';
      if (name.starts_with(counter) && (name.size() == counter.size() || labelled))
        sum = sum.value_or(0) + value;
    }
    return sum;
  };
  std::optional<double> first;
  std::optional<double> last;
  for (const Sample& sample : run.samples) {
    const auto value = total(sample);
    if (!value) continue;
    if (!first) first = value;
    last = value;
  }
  if (!first) return std::nullopt;
  return *last - *first;
}

struct Line {
  std::string trace;
  std::string mode;
  std::string requests;
  std::array<std::optional<double>, 4> ttft_s;  // P50, P90, P95, P99
  std::optional<double> in_time;                // share of all requests
  std::optional<double> kept;                   // image tokens over vanilla's
  std::optional<double> encodes;                // where answers are made, an image
  std::optional<double> right;                  // share of all requests
  std::optional<double> in_time_right;
};

// What is public of the published runs: seconds read off the legends of its interim plots.
struct Published {
  std::string_view trace;
  std::string_view mode;
  std::array<double, 4> ttft_s;
};
constexpr std::array kPublished = {
    Published{"4", "published, static", {.2122, .4408, .5391, 1.0215}},
    Published{"4", "published, static, bilinear", {.3050, .6066, .6918, .9280}},
    Published{"5", "published, static", {.2024, .4660, .6054, 1.2252}},
    Published{"5", "published, static, bilinear", {.2156, .4082, .5364, 1.2610}},
};

Line line_of(const RunLog& run, std::string trace, std::string mode,
             std::optional<std::int64_t> vanilla_tokens, const ImageSizeTableSettings& settings) {
  const RunMetrics metrics = compute_metrics(run);
  Line line{std::move(trace), std::move(mode), {}, {}, {}, {}, {}, {}, {}};
  const auto asked = static_cast<double>(metrics.completed + metrics.failed);
  line.requests = metrics.failed > 0 ? fmt::format("{:.0f}, {} failed", asked, metrics.failed)
                                     : fmt::format("{:.0f}", asked);
  if (asked == 0) return line;
  std::size_t at = 0;
  for (const double percent : {50.0, 90.0, 95.0, 99.0}) {
    if (!metrics.ttft.empty())
      line.ttft_s.at(at) = metrics.ttft.percentile(percent) / settings.time_scale;
    ++at;
  }
  const double limit = settings.target_s * settings.time_scale;
  double in_time = 0;
  double right = 0;
  double both = 0;
  double images = 0;
  bool judged = false;
  for (const RequestMetrics& request : metrics.requests) {
    const RequestRecord& record = run.requests.at(request.position);
    const PromptRecord& prompt = run.prompts.at(record.prompt);
    images += static_cast<double>(prompt.images.size());
    const bool is_in_time = request.success && request.ttft && *request.ttft <= limit;
    in_time += is_in_time;
    if (prompt.reference.empty() || record.answer.size == 0) continue;
    judged = true;
    const bool is_right = request.success && without_margins(run.text_of(record.answer)) ==
                                                 without_margins(prompt.reference);
    right += is_right;
    both += is_right && is_in_time;
  }
  line.in_time = in_time / asked;
  if (judged) {
    line.right = right / asked;
    line.in_time_right = both / asked;
  }
  if (vanilla_tokens && *vanilla_tokens > 0 && metrics.total_image_tokens > 0)
    line.kept =
        static_cast<double>(metrics.total_image_tokens) / static_cast<double>(*vanilla_tokens);
  const auto encoded = growth(run, "saccade:images_encoded_total");
  if (encoded && images > 0) line.encodes = *encoded / images;
  return line;
}

std::string seconds_text(double value) { return fmt::format("{:.3f}", value); }
std::string percent_text(double value) { return fmt::format("{:.1f} %", 100 * value); }
std::string ratio_text(double value) { return fmt::format("{:.2f}", value); }

// What the repetitions of one line measured: alone as it is, of several the median and from where
// to where they lie; a dash where one of them has nothing.
std::string cell(std::vector<std::optional<double>> values, std::string (*form)(double)) {
  if (!std::ranges::all_of(values, [](const auto& value) { return value.has_value(); }))
    return " - |";
  std::ranges::sort(values);
  if (values.size() == 1) return fmt::format(" {} |", form(*values[0]));
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? *values[half] : (*values[half - 1] + *values[half]) / 2;
  return fmt::format(" {} ({} to {}) |", form(median), form(*values.front()), form(*values.back()));
}

std::string requests_of(std::span<const Line> repetitions) {
  std::string text;
  for (const Line& line : repetitions)
    if (&line == &repetitions.front() || line.requests != repetitions.front().requests)
      text += (text.empty() ? "" : "; ") + line.requests;
  return repetitions.size() == 1 ? text : fmt::format("{} runs: {}", repetitions.size(), text);
}

std::string table_row(std::span<const Line> repetitions) {
  const Line& first = repetitions.front();
  std::string text =
      fmt::format("| {} | {} | {} |", first.trace, first.mode, requests_of(repetitions));
  const auto column = [&](const auto& member, std::string (*form)(double)) {
    std::vector<std::optional<double>> values;
    for (const Line& line : repetitions) values.push_back(member(line));
    text += cell(std::move(values), form);
  };
  for (std::size_t i = 0; i < first.ttft_s.size(); ++i)
    column([i](const Line& line) { return line.ttft_s.at(i); }, seconds_text);
  column([](const Line& line) { return line.in_time; }, percent_text);
  column([](const Line& line) { return line.kept; }, percent_text);
  column([](const Line& line) { return line.encodes; }, ratio_text);
  column([](const Line& line) { return line.right; }, percent_text);
  column([](const Line& line) { return line.in_time_right; }, percent_text);
  return text + "\n";
}

}  // namespace

Result<std::string> image_size_table(std::span<const RunLog> runs,
                                     const ImageSizeTableSettings& settings) {
  std::vector<std::string> traces;  // as they come first
  std::vector<std::pair<std::string, std::string>> names;
  std::map<std::pair<std::string, std::string>, std::map<std::string, const RunLog*>> known;
  for (const RunLog& run : runs) {
    const auto trace = metadata_of(run, "trace");
    const auto mode = metadata_of(run, "image_size");
    if (!trace || !mode)
      return fail(ErrorCode::kInvalid,
                  "the run does not say its {}: --metadata image_size=MODE trace=ID",
                  trace ? "image_size" : "trace");
    auto& repetitions = known[{*trace, *mode}];
    if (repetitions.empty()) names.emplace_back(*trace, *mode);
    if (!repetitions.try_emplace(metadata_of(run, "seed").value_or(""), &run).second)
      return fail(ErrorCode::kInvalid,
                  "two runs of trace {} with image_size {} (--metadata seed=N makes them two)",
                  *trace, *mode);
    if (std::ranges::find(traces, *trace) == traces.end()) traces.push_back(*trace);
  }
  std::string text = fmt::format(
      "Times to first token in seconds of the publication, one of which took {:.4g} s here; in "
      "time: "
      "up to {:.4g} s. Encodes: where answers are made, an image.\n\n"
      "| trace | image size | requests | P50 | P90 | P95 | P99 | in time | image tokens kept | "
      "encodes | right | in time and right |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      settings.time_scale, settings.target_s);
  for (const std::string& trace : traces) {
    std::map<std::string, std::int64_t> vanilla_tokens;  // by seed
    if (const auto found = known.find({trace, std::string(kVanilla)}); found != known.end())
      for (const auto& [seed, run] : found->second)
        vanilla_tokens[seed] = compute_metrics(*run).total_image_tokens;
    for (const auto& name : names) {
      if (name.first != trace) continue;
      std::vector<Line> lines;
      for (const auto& [seed, run] : known.at(name)) {
        const auto vanilla = vanilla_tokens.find(seed);
        lines.push_back(
            line_of(*run, trace, name.second,
                    vanilla == vanilla_tokens.end() ? std::nullopt : std::optional(vanilla->second),
                    settings));
      }
      text += table_row(lines);
    }
    if (!settings.published) continue;
    for (const Published& published : kPublished) {
      if (published.trace != trace) continue;
      Line line;
      line.trace = trace;
      line.mode = published.mode;
      line.requests = "-";
      std::ranges::copy(published.ttft_s, line.ttft_s.begin());
      text += table_row(std::span(&line, 1));
    }
  }
  return text;
}

Result<std::string> image_size_table(const std::vector<std::string>& paths,
                                     const ImageSizeTableSettings& settings) {
  std::vector<RunLog> runs;
  for (const std::string& path : paths) {
    auto run = read_run_log(path);
    if (!run) return fail_within(path, std::move(run).error());
    for (const char* key : {"trace", "image_size"}) {
      if (!metadata_of(*run, key))
        return fail(ErrorCode::kInvalid,
                    "{}: no {} in its metadata (--metadata image_size=MODE trace=ID)", path, key);
    }
    runs.push_back(*std::move(run));
  }
  return image_size_table(std::span<const RunLog>(runs), settings);
}

}  // namespace saccade::bench
