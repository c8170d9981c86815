#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/text/printable.h"

namespace saccade {
namespace {

constexpr Nanos kSilence = kSecond;  // of work that may end by itself
constexpr Nanos kBarInterval = 100 * kMillisecond;
constexpr Nanos kLineInterval = 5 * kSecond;
constexpr int kWidth = 24;         // of the bar
constexpr std::size_t kText = 78;  // of all: what a terminal shows in one line

std::atomic<bool> one_speaks = false;  // ranks load beside each other

const Clock& steady() {
  static const SteadyClock clock;
  return clock;
}

Progress::Output stderr_output() {
  if (::isatty(STDERR_FILENO) != 1)
    return {false, [](const std::string& line) { log::info("{}", line); }};
  return {true, [](const std::string& text) {
            std::fputs(("\r\033[K" + text).c_str(), stderr);
            std::fflush(stderr);
          }};
}

}  // namespace

Progress::Progress(std::string what) : Progress(std::move(what), steady(), stderr_output()) {
  speaks_ = !one_speaks.exchange(true);
  shared_ = true;
}

Progress::Progress(std::string what, const Clock& clock, Output output)
    : what_(std::move(what)),
      clock_(clock),
      output_(std::move(output)),
      began_(clock.now()),
      due_(began_ + kSilence) {}

std::string Progress::text(double share, std::uint64_t bytes, std::string_view next,
                           Nanos spent) const {
  const auto filled = static_cast<int>(share * kWidth);
  const auto total = static_cast<double>(bytes);
  std::string text = output_.terminal ? fmt::format("{} [{:#<{}}{:.<{}}] {:.0f} %", what_, "",
                                                    filled, "", kWidth - filled, 100 * share)
                                      : fmt::format("{}: {:.0f} %", what_, 100 * share);
  text += fmt::format(", {:.2f} GB, {:.2f} GB/s", total / 1e9, total / 1e9 / seconds(spent));
  if (share > 0 && share < 1)
    text += fmt::format(", {:.0f} s left", seconds(spent) * (1 - share) / share);
  if (!next.empty()) text += fmt::format(", next {}", printable(next));
  if (output_.terminal && text.size() > kText) text.resize(kText);
  return text;
}

void Progress::show(double share, std::uint64_t bytes, std::string_view next) {
  const Nanos now = clock_.now();
  if (now < due_ || !speaks_) return;
  due_ = now + (output_.terminal ? kBarInterval : kLineInterval);
  output_.write(text(std::clamp(share, 0.0, 1.0), bytes, next, std::max<Nanos>(now - began_, 1)));
  shown_ = true;
}

void Progress::end() {
  if (shown_ && output_.terminal) output_.write("");
  shown_ = false;
  if (shared_ && speaks_) one_speaks = false;
  speaks_ = false;
}

}  // namespace saccade
