#include "bench/html_report.h"

#include "bench/metric_table.h"
#include "bench/report_assets.h"
#include "bench/run_health.h"

namespace saccade::bench {
namespace {

// Inside <script> a "<" could end or change the element; escaped it is the same JSON.
std::string inside_script(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      safe += c;
    }
  }
  return safe;
}

// What is shown without the script.
std::string plain_report(std::span<const ReportedRun> runs) {
  std::string out = "<main>\n<h1>Benchmark report</h1>\n";
  for (const ReportedRun& run : runs) {
    out += fmt::format("<h2>{}</h2>\n<div class=\"scroll\"><table>\n", escaped(run.name));
    for (const MetricRow& row : metric_table(*run.metrics))
      out += fmt::format("<tr><th scope=\"row\">{}</th><td>{:.2f}</td></tr>\n", escaped(row.name),
                         row.value);
    out += fmt::format("</table></div>\n<pre class=\"scroll\">{}</pre>\n",
                       escaped(health_text(*run.log, *run.metrics)));
    out += "<div class=\"scroll\"><table>\n";
    for (const auto& [key, value] : configuration_of(*run.log))
      out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escaped(key),
                         escaped(value));
    out += "</table></div>\n";
  }
  return out + "</main>\n";
}

}  // namespace

std::string html_report(std::span<const ReportedRun> runs) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Benchmark report</title>\n<style>\n";
  page += report_style();
  page += "</style>\n</head>\n<body>\n";
  if (report_script().empty()) {
    page +=
        "<p class=\"note\">This program was built without npm, so its reports have no "
        "charts.</p>\n" +
        plain_report(runs);
  } else {
    page += "<noscript>\n" + plain_report(runs) +
            "</noscript>\n<script type=\"application/json\" id=\"saccade-data\">";
    page += inside_script(report_json(runs));
    page += "</script>\n<script>\n";
    page += report_script();
    page += "\n</script>\n";
  }
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace saccade::bench
