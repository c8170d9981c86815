// What to say, apart from where.
#include "bench/load/live_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace saccade::bench {
namespace {
constexpr Nanos kRateWindow = 2 * kSecond;         // on a terminal
constexpr Nanos kLeastWindow = 50 * kMillisecond;  // a shorter one says nothing of a rate
}  // namespace

std::string progress_line(const LoadProgress& now, const LoadProgress& before) {
  const Nanos window = now.elapsed - before.elapsed;
  const auto rate = [&](std::uint64_t after, std::uint64_t earlier) {
    if (window < kLeastWindow) return 0.0;
    return static_cast<double>(after - std::min(earlier, after)) / seconds(window);
  };
  const double asked = rate(now.due, before.due);
  const double real = rate(now.started, before.started);
  std::string line =
      fmt::format("[{:6.1f} s] {}/{} sent", seconds(now.elapsed), now.started, now.planned);
  line += fmt::format("  asked {:.1f}/s real {:.1f}/s  in flight {}", asked, real, now.in_flight());
  line += fmt::format("  failed {}", now.failed);
  if (now.ttft_p50 > 0) {
    line += fmt::format("  TTFT ms p50 {:.1f} p99 {:.1f}", milliseconds(now.ttft_p50),
                        milliseconds(now.ttft_p99));
  }
  if (now.output_tokens > 0) {
    line += fmt::format("  {:.0f} tok/s", rate(now.output_tokens, before.output_tokens));
  } else if (now.output_events > 0) {
    line += fmt::format("  {:.0f} events/s", rate(now.output_events, before.output_events));
  }
  const double ended_rate = rate(now.ended, before.ended);
  if (now.draining) {
    line += "  draining";
  } else if (ended_rate > 0 && now.planned > now.ended) {
    line +=
        fmt::format("  {:.0f} s left", static_cast<double>(now.planned - now.ended) / ended_rate);
  }
  return line;
}

LiveView::LiveView(std::FILE* to, Nanos plain_period)
    : to_(to), terminal_(isatty(fileno(to)) != 0), plain_period_(plain_period) {}

LiveView::~LiveView() {
  if (terminal_ && shown_ > 0) std::fputc('\n', to_);
}

void LiveView::show(const LoadProgress& progress) {
  if (!terminal_ && progress.elapsed < next_plain_) return;
  std::string line = progress_line(progress, before_);
  if (!terminal_) {
    next_plain_ = progress.elapsed + plain_period_;
    before_ = progress;
    line += '\n';
  } else {
    const std::size_t size = line.size();
    if (size < shown_) line.append(shown_ - size, ' ');
    line.insert(0, "\r");
    shown_ = size;
    if (progress.elapsed >= next_window_) {
      before_ = std::exchange(later_, progress);
      next_window_ = progress.elapsed + kRateWindow;
    }
  }
  std::fwrite(line.data(), 1, line.size(), to_);
  std::fflush(to_);
}

}  // namespace saccade::bench
