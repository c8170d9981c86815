#include "cluster/sizes/seed_size_rule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace saccade::cluster {
namespace {

constexpr double kRateWindow = 3;               // seconds
constexpr double kLeastSpan = 1;                // seconds
constexpr double kNoRate = 1e-5;                // keeps the division finite
constexpr double kSquare = 28;                  // pixels of a visual token's side
constexpr std::size_t kMaxRequests = 1u << 20;  // requests within the window that are told apart

}  // namespace

Result<SeedLine> parse_seed_line(std::string_view text) {
  std::array<double, 3> numbers = {0, 0, 1};
  std::size_t count = 0;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const char* const end = rest.data() + comma;
    if (count == numbers.size()) break;
    // `saccade profile` prints an intercept with its sign, which from_chars takes of minus alone.
    const std::size_t plus = comma > 1 && rest[0] == '+' && rest[1] != '-' ? 1 : 0;
    const auto [stop, error] = std::from_chars(rest.data() + plus, end, numbers.at(count));
    if (error != std::errc() || stop != end || !std::isfinite(numbers.at(count))) break;
    ++count;
    if (comma == rest.size()) {
      if (count >= 2 && numbers[0] > 0 && numbers[2] > 0)
        return SeedLine{numbers[0], numbers[1], numbers[2]};
      break;
    }
    rest.remove_prefix(comma + 1);
  }
  return fail(ErrorCode::kInvalid,
              "'{}' is no line: SLOPE,INTERCEPT[,SECOND] in ms a token, ms and s, slope and second "
              "over 0",
              text);
}

std::int64_t seed_capacity(Nanos target, const SeedLine& line) {
  const double tokens = (milliseconds(target) - line.intercept) / line.slope;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(tokens));
}

std::int64_t seed_budget(std::int64_t capacity, Nanos target, double rate) {
  const double tokens = static_cast<double>(capacity) / (seconds(target) * (rate + kNoRate));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(tokens, 1e15)));
}

std::optional<PixelSize> seed_reduced(int width, int height, std::int64_t budget) {
  const double squares = (width / kSquare) * (height / kSquare);
  if (squares <= static_cast<double>(budget)) return std::nullopt;
  const int longer = static_cast<int>(std::sqrt(static_cast<double>(budget)) * kSquare);
  const auto follow = [longer](int shorter_side, int longer_side) {
    const std::int64_t side = std::int64_t{shorter_side} * longer / longer_side;
    return static_cast<int>(std::max<std::int64_t>(1, side));
  };
  if (width >= height) return PixelSize{longer, follow(height, width)};
  return PixelSize{follow(width, height), longer};
}

double SeedRate::arrived() {
  const Nanos now = clock_.now();
  while (!arrivals_.empty() && seconds(now - arrivals_.front()) > kRateWindow * second_)
    arrivals_.pop_front();
  arrivals_.push_back(now);
  if (arrivals_.size() > kMaxRequests) arrivals_.pop_front();
  const double span = std::max(kLeastSpan * second_, seconds(now - arrivals_.front()));
  return static_cast<double>(arrivals_.size()) / span;
}

}  // namespace saccade::cluster
