#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "base/text/printable.h"

namespace saccade::log {
namespace {

// Never destroyed: threads that nobody waits for write while the process takes itself down.
spdlog::logger& logger() {
  static spdlog::logger& instance = []() -> spdlog::logger& {
    auto* const made =
        new spdlog::logger("saccade", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%L%$ %v");
    return *made;
  }();
  return instance;
}

spdlog::level::level_enum translate(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_level(Level level) { logger().set_level(translate(level)); }

// What a peer has sent may be part of it, and must not look like a line or a colour of ours.
void write(Level level, std::string_view line) { logger().log(translate(level), printable(line)); }

}  // namespace saccade::log
