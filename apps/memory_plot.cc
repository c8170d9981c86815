#include "apps/memory_plot.h"

#include <fmt/format.h>

#include <array>

namespace saccade {
namespace {

constexpr double kLeft = 90;
constexpr double kWidth = 620;
constexpr double kBar = 26;
constexpr double kGap = 12;
constexpr double kCurve = 150;  // height

struct Term {
  const char* name;
  const char* colour;
  std::int64_t MemoryUse::* bytes;
};
constexpr std::array<Term, 8> kTerms = {{{"useful", "#1b7837", &MemoryUse::useful},
                                         {"cached", "#7fbf7b", &MemoryUse::cached},
                                         {"free", "#f0f0f0", &MemoryUse::free},
                                         {"overhold", "#b2182b", &MemoryUse::overhold},
                                         {"slack", "#ef8a62", &MemoryUse::slack},
                                         {"tail", "#fddbc7", &MemoryUse::tail},
                                         {"pad", "#67a9cf", &MemoryUse::pad},
                                         {"reserve", "#2166ac", &MemoryUse::reserve}}};
constexpr std::array<const char*, 4> kLines = {"#1b7837", "#b2182b", "#2166ac", "#ef8a62"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

void add_text(std::string& svg, double x, double y, const std::string& text,
              const char* anchor = "start") {
  svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>\n", x, y, anchor,
                     escaped(text));
}

void add_bar(std::string& svg, double y, const MemoryUse& use) {
  double x = kLeft;
  for (const Term& term : kTerms) {
    const double share = static_cast<double>(use.*term.bytes) / static_cast<double>(use.total());
    if (share <= 0) continue;
    svg += fmt::format(
        "<rect x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{:.0f}' fill='{}' stroke='#fff' "
        "stroke-width='0.5'><title>{}: {:.2f} %</title></rect>\n",
        x, y, share * kWidth, kBar, term.colour, term.name, share * 100);
    if (share > 0.06) {
      const bool dark = term.colour[1] == '1' || term.colour[1] == 'b' || term.colour[1] == '2';
      svg +=
          fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle' fill='{}'>{:.1f}</text>\n",
                      x + share * kWidth / 2, y + kBar - 9, dark ? "#fff" : "#222", share * 100);
    }
    x += share * kWidth;
  }
}

void add_legend(std::string& svg, double y) {
  double x = kLeft;
  for (const Term& term : kTerms) {
    svg += fmt::format(
        "<rect x='{:.0f}' y='{:.0f}' width='11' height='11' fill='{}' stroke='#999' "
        "stroke-width='0.5'/>\n",
        x, y, term.colour);
    add_text(svg, x + 15, y + 10, term.name);
    x += 78;
  }
}

void add_curve(std::string& svg, double top, const ReplayReport& report, const char* colour) {
  svg += fmt::format("<polyline fill='none' stroke='{}' stroke-width='1.4' points='", colour);
  const std::size_t count = report.samples_taken.size();
  for (std::size_t i = 0; i < count; ++i) {
    const MemoryUse& use = report.samples_taken[i];
    const double share = static_cast<double>(use.useful) / static_cast<double>(use.total());
    const double x = kLeft + kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    svg += fmt::format("{:.1f},{:.1f} ", x, top + kCurve * (1 - share));
  }
  svg += "'/>\n";
}

}  // namespace

std::string plot_replays(const std::string& title,
                         const std::vector<std::pair<std::string, ReplayReport>>& policies) {
  const double curves = 50 + static_cast<double>(policies.size()) * (kBar + kGap) + 52;
  const double height = curves + kCurve + 40;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 740 {:.0f}' "
      "font-family='sans-serif' font-size='12' fill='#222'>\n"
      "<rect width='740' height='{:.0f}' fill='#fff'/>\n",
      height, height);
  add_text(svg, 10, 20, title);
  double y = 36;
  for (const auto& [name, report] : policies) {
    add_text(svg, kLeft - 8, y + kBar - 9, name, "end");
    add_bar(svg, y, report.mean);
    y += kBar + kGap;
  }
  add_legend(svg, y);
  add_text(svg, 10, curves - 8, "useful share of the pool over each policy's own replay");
  svg += fmt::format(
      "<rect x='{:.0f}' y='{:.0f}' width='{:.0f}' height='{:.0f}' fill='none' "
      "stroke='#999'/>\n",
      kLeft, curves, kWidth, kCurve);
  for (const int percent : {0, 50, 100}) {
    add_text(svg, kLeft - 8, curves + kCurve * (1 - percent / 100.0) + 4,
             fmt::format("{} %", percent), "end");
  }
  double x = kLeft;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const char* const colour = kLines[i % kLines.size()];
    add_curve(svg, curves, policies[i].second, colour);
    svg += fmt::format("<rect x='{:.0f}' y='{:.0f}' width='18' height='3' fill='{}'/>\n", x,
                       curves + kCurve + 18, colour);
    add_text(svg, x + 24, curves + kCurve + 23, policies[i].first);
    x += 110;
  }
  return svg + "</svg>\n";
}

}  // namespace saccade
