#include "bench/reports/html_report.h"

#include <algorithm>
#include <map>

#include "bench/load/server/run_health.h"
#include "bench/metrics/metric_table.h"
#include "bench/reports/report_assets.h"

namespace saccade::bench {
namespace {

using Escapes = std::initializer_list<std::pair<char, std::string_view>>;

std::string escaped(std::string_view text,
                    const Escapes& escapes = {{'<', "&lt;"}, {'&', "&amp;"}}) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    const auto found = std::ranges::find(escapes, c, [](const auto& each) { return each.first; });
    if (found == escapes.end()) {
      safe += c;
    } else {
      safe += found->second;
    }
  }
  return safe;
}

std::string cells(std::string_view tag, const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += fmt::format("<{0}>{1}</{0}>", tag, escaped(text));
  return out;
}

std::string row(std::string_view name, const std::vector<std::string>& values) {
  return fmt::format("<tr><th scope=\"row\">{}</th>{}</tr>\n", escaped(name), cells("td", values));
}

// The figures, a column for each run.
std::string plain_figures(std::span<const ReportedRun> runs) {
  std::vector<std::string> names;
  std::vector<std::string> completed;
  std::vector<std::string> failed;
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    names.push_back(runs[i].name);
    completed.push_back(fmt::to_string(runs[i].metrics->completed));
    failed.push_back(fmt::to_string(runs[i].metrics->failed));
    for (const MetricRow& metric : metric_table(*runs[i].metrics)) {
      std::vector<std::string>& values = rows[metric.name];
      if (values.empty()) {
        order.push_back(metric.name);
        values.assign(runs.size(), "\u2013");
      }
      values[i] = fmt::format("{:.2f}", metric.value);
    }
  }
  std::string out =
      fmt::format("<div class=\"scroll\"><table>\n<tr><th></th>{}</tr>\n", cells("th", names));
  out += row("Successful requests", completed) + row("Failed requests", failed);
  for (const std::string& name : order) out += row(name, rows[name]);
  return out + "</table></div>\n";
}

// What is shown without the script.
std::string plain_report(std::span<const ReportedRun> runs) {
  std::string out = "<main>\n<h1>Benchmark report</h1>\n" + plain_figures(runs);
  for (const ReportedRun& run : runs) {
    out += fmt::format("<h2>{}</h2>\n<pre class=\"scroll\">{}</pre>\n", escaped(run.name),
                       escaped(health_text(*run.log, *run.metrics)));
    out += "<div class=\"scroll pairs\"><table>\n";
    for (const auto& [key, value] : configuration_of(*run.log)) out += row(key, {value});
    out += "</table></div>\n";
  }
  return out + "</main>\n";
}

}  // namespace

std::string html_report(std::span<const ReportedRun> runs) {
  return html_report(runs, report_script());
}

std::string html_report(std::span<const ReportedRun> runs, std::string_view script) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Benchmark report</title>\n<style>\n";
  page += report_style();
  page += "</style>\n</head>\n<body>\n";
  if (script.empty()) {
    page +=
        "<p class=\"note\">This program was built without npm, so its reports have no "
        "charts.</p>\n" +
        plain_report(runs);
  } else {
    page += "<noscript>\n" + plain_report(runs) +
            "</noscript>\n<script type=\"application/json\" id=\"saccade-data\">";
    // Inside <script> a "<" could end or change the element; escaped it is the same JSON.
    page += escaped(report_json(runs), {{'<', "\\u003c"}});
    page += "</script>\n<script>\n";
    page += script;
    page += "\n</script>\n";
  }
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace saccade::bench
