// CHECK: a broken promise inside the program ends it, with the values that broke it. Always on.
// Never for what a client, a file or the network can cause: that is a Result (result.h).
#pragma once

#include <fmt/format.h>

#include <string>

namespace saccade {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& detail);

}  // namespace saccade

// CHECK(free + used == total, "free={} used={} total={}", free, used, total);
#define CHECK(condition, ...)                                                                 \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::saccade::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
