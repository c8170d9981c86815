#include "apps/flags/duration_flag.h"

#include <charconv>
#include <utility>

namespace saccade {
namespace {

constexpr double kDay = 86'400;

}  // namespace

Result<Nanos> parse_duration(std::string_view flag, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double seconds = -1;
  for (const auto& [name, length] : {std::pair<std::string_view, double>{"ms", 1e-3},
                                     {"s", 1},
                                     {"", 1},
                                     {"m", 60},
                                     {"h", 3'600},
                                     {"us", 1e-6}})
    if (unit == name) seconds = number * length;
  if (error != std::errc() || !(seconds > 0) || seconds > kDay)
    return fail(ErrorCode::kInvalid,
                "{} is '{}': a time such as 2s or 500ms, up to a day, is "
                "required",
                flag, text);
  return static_cast<Nanos>(seconds * 1e9);
}

}  // namespace saccade
