#include "engine/stop_checker.h"

#include <algorithm>
#include <utility>

namespace saccade {
namespace {

// Bytes at the end of `text` that begin `stop` without completing it.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.substr(text.size() - length) == stop.substr(0, length)) return length;
  }
  return 0;
}

}  // namespace

StopChecker::StopChecker(std::vector<std::string> stops, bool include)
    : stops_(std::move(stops)), include_(include) {}

StopChecker::Verdict StopChecker::push(std::string_view text, bool armed) {
  if (!armed || stops_.empty()) return {std::string(text), std::nullopt};
  held_ += text;
  // The one that is complete first, as if the text had come byte by byte; the longest of those.
  std::size_t end = std::string::npos;
  const std::string* matched = nullptr;
  for (const auto& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t stop_end = at + stop.size();
    if (stop_end < end || (stop_end == end && stop.size() > matched->size())) {
      end = stop_end;
      matched = &stop;
    }
  }
  if (matched != nullptr) {
    held_.resize(include_ ? end : end - matched->size());
    return {std::exchange(held_, {}), *matched};
  }
  std::size_t keep = 0;
  for (const auto& stop : stops_) keep = std::max(keep, overlap(held_, stop));
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return {std::move(out), std::nullopt};
}

std::string StopChecker::finish() { return std::exchange(held_, {}); }

}  // namespace saccade
