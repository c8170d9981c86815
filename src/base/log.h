// The operator's log: one line at start, one per failure, nothing per token. Any thread. Writes to
// stderr.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace saccade::log {

enum class Level { kDebug, kInfo, kWarning, kError };

void set_level(Level level);
void write(Level level, std::string_view line);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace saccade::log
