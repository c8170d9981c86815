#include "bench/reports/cdf_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace saccade::bench {
namespace {

constexpr double kSvgWidth = 840;
constexpr double kSvgHeight = 520;
constexpr double kLeft = 70;
constexpr double kRight = 30;
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr std::array<const char*, 6> kColours = {"#1f5fa8", "#c4511d", "#2e8b57",
                                                 "#8a3ab9", "#b8860b", "#444444"};
constexpr std::array<double, 4> kMarked = {50, 90, 95, 99};
constexpr std::size_t kMaxPoints = 2'000;  // a curve: more than pixels

std::string svg_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

// A round step that gives about six ticks.
double tick_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 6)));
  for (const double multiple : {1.0, 2.0, 5.0})
    if (range / (power * multiple) <= 6) return power * multiple;
  return power * 10;
}

class Drawing {
 public:
  explicit Drawing(double x_max) : x_max_(x_max) {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
        "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kSvgWidth, kSvgHeight);
  }

  double x(double value) const { return kLeft + value / x_max_ * (kSvgWidth - kLeft - kRight); }
  double y(double share) const {
    return kSvgHeight - kBottom - share * (kSvgHeight - kTop - kBottom);
  }

  void line(double x1, double y1, double x2, double y2, std::string_view style) {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1,
                        y1, x2, y2, style);
  }
  void text(double at_x, double at_y, std::string_view anchor, std::string_view content) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at_x,
                        at_y, anchor, svg_text(content));
  }
  void axes(std::string_view label) {
    for (int i = 0; i <= 5; ++i) {
      const double share = i / 5.0;
      line(kLeft, y(share), kSvgWidth - kRight, y(share), "stroke=\"#dddddd\"");
      text(kLeft - 8, y(share) + 4, "end", fmt::format("{:.1f}", share));
    }
    const double step = tick_step(x_max_);
    for (int i = 0; i * step <= x_max_ * 1.0001; ++i) {
      line(x(i * step), y(0), x(i * step), y(0) + 5, "stroke=\"#444444\"");
      text(x(i * step), y(0) + 20, "middle", fmt::format("{:g}", i * step));
    }
    line(kLeft, y(0), kSvgWidth - kRight, y(0), "stroke=\"#444444\"");
    text((kLeft + kSvgWidth - kRight) / 2, kSvgHeight - 18, "middle", label);
  }
  // A step curve: at the k-th smallest value the share becomes k / n.
  void curve(std::span<const double> sorted, std::string_view colour) {
    const std::size_t n = sorted.size();
    const std::size_t stride = std::max<std::size_t>(1, n / kMaxPoints);
    std::string path = fmt::format("M{:.1f} {:.1f}", x(0), y(0));
    for (std::size_t i = 0; i < n; i += stride) {
      const std::size_t last = std::min(i + stride, n) - 1;
      if (sorted[last] > x_max_) {
        path += fmt::format("H{:.1f}", x(x_max_));
        break;
      }
      path += fmt::format("H{:.1f}V{:.1f}", x(sorted[last]),
                          y(static_cast<double>(last + 1) / static_cast<double>(n)));
    }
    out_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path,
                        colour);
  }
  std::string finish() { return out_ + "</svg>\n"; }

 private:
  double x_max_;
  std::string out_;
};

}  // namespace

std::string cdf_svg(std::span<const CdfCurve> curves, const CdfSettings& settings) {
  double x_max = settings.x_max;
  if (x_max <= 0)
    for (const CdfCurve& curve : curves) x_max = std::max(x_max, curve.sample->max());
  if (!(x_max > 0) || !std::isfinite(x_max)) x_max = 1;
  Drawing drawing(x_max);
  drawing.text(kSvgWidth / 2, 26, "middle", settings.title);
  drawing.axes(settings.axis);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const char* const colour = kColours[i % kColours.size()];
    drawing.curve(curves[i].sample->sorted(), colour);
    const double row = kSvgHeight - kBottom - 12 - 18 * static_cast<double>(curves.size() - 1 - i);
    drawing.line(kSvgWidth - 230, row - 4, kSvgWidth - 205, row - 4,
                 fmt::format("stroke=\"{}\" stroke-width=\"2\"", colour));
    drawing.text(kSvgWidth - 200, row, "start",
                 fmt::format("{} (n {})", curves[i].name, curves[i].sample->size()));
  }
  if (!curves.empty() && !curves[0].sample->empty()) {
    for (std::size_t i = 0; i < kMarked.size(); ++i) {
      const double value = curves[0].sample->percentile(kMarked[i]);
      if (value > x_max) continue;
      drawing.line(drawing.x(value), drawing.y(0), drawing.x(value), drawing.y(1),
                   "stroke=\"#888888\" stroke-dasharray=\"5 4\"");
      drawing.text(drawing.x(value) + 4, kTop + 14 + 16 * static_cast<double>(i), "start",
                   fmt::format("P{:g} {:.3f}", kMarked[i], value));
    }
  }
  return drawing.finish();
}

}  // namespace saccade::bench
