#include "grammar/schema/schema_multiples.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

namespace saccade::grammar {
namespace {

constexpr std::int64_t kMaxStep = 1000;
constexpr int kMaxDecimals = 9;
constexpr std::int64_t kMaxListed = 1024;

std::int64_t power_of_ten(int exponent) {
  std::int64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

// `at` in units of its `decimals`-th decimal; nothing where that is no integer of 18 digits.
std::optional<std::int64_t> in_units(const Decimal& at, int decimals) {
  const auto places = static_cast<std::size_t>(decimals);
  constexpr std::size_t kMaxUnitDigits = 18;
  if (at.fraction.size() > places || at.whole.size() + places > kMaxUnitDigits) return std::nullopt;
  const std::string digits = at.whole + at.fraction + std::string(places - at.fraction.size(), '0');
  const std::int64_t units = digits.empty() ? 0 : std::stoll(digits);
  return at.negative ? -units : units;
}

// Digit for digit: a state is the remainder of what has been written, in units of the last decimal
// that a multiple may have. Each state is a rule, and the rule of the next comes last in it.
class Digits {
 public:
  // Multiples of `step` units of 10^-decimals.
  Digits(Grammar& grammar, std::int64_t step, int decimals, bool zero)
      : grammar_(grammar), step_(step), decimals_(decimals), zero_(zero) {}

  NodeId magnitudes() {
    std::vector<NodeId> ways;
    std::vector<NodeId> after_zero;
    if (zero_) after_zero.push_back(grammar_.sequence({}));
    if (decimals_ > 0 && alive({0, 0, false})) after_zero.push_back(point({0, 0, false}));
    if (!after_zero.empty())
      ways.push_back(grammar_.sequence({grammar_.text("0"), grammar_.choice(after_zero)}));
    add_digits({kWhole, 0, false}, '1', ways);
    const NodeId whole = grammar_.choice(ways);
    while (!open_.empty()) {
      const State state = open_.back();
      open_.pop_back();
      grammar_.define(rules_.at(state), body(state));
    }
    return whole;
  }

 private:
  static constexpr int kWhole = -1;
  // Decimals written, or kWhole; the remainder; whether a digit was other than 0.
  using State = std::tuple<int, std::int64_t, bool>;

  bool may_end(const State& state) const {
    const auto [place, remainder, nonzero] = state;
    if (place == 0 || !(nonzero || zero_)) return false;
    const int left = place == kWhole ? decimals_ : decimals_ - place;
    return remainder * (power_of_ten(left) % step_) % step_ == 0;
  }
  State next(const State& state, int digit) const {
    const auto [place, remainder, nonzero] = state;
    return {place == kWhole ? kWhole : place + 1, (10 * remainder + digit) % step_,
            nonzero || digit != 0};
  }
  // Whether a multiple begins so. Before the point any remainder can still come to 0.
  bool alive(const State& state) {
    const int place = std::get<0>(state);
    if (place == kWhole || may_end(state)) return true;
    if (place == decimals_) return false;
    const auto [found, fresh] = alive_.try_emplace(state, false);
    if (!fresh) return found->second;
    bool any = false;
    for (int digit = 0; digit < 10 && !any; ++digit) any = alive(next(state, digit));
    return alive_[state] = any;
  }

  NodeId call(const State& state) {
    const auto [found, fresh] = rules_.try_emplace(state, 0);
    if (fresh) {
      found->second = grammar_.declare("multiple");
      open_.push_back(state);
    }
    return grammar_.call(found->second);
  }
  NodeId point(const State& behind) {
    return grammar_.sequence({grammar_.text("."), call(behind)});
  }
  void add_digits(const State& state, char first, std::vector<NodeId>& ways) {
    std::map<State, std::vector<CharacterRange>> by_next;
    for (char digit = first; digit <= '9'; ++digit) {
      const State to = next(state, digit - '0');
      const auto code = static_cast<char32_t>(digit);
      if (alive(to)) by_next[to].push_back({code, code});
    }
    for (const auto& [to, digits] : by_next)
      ways.push_back(grammar_.sequence({grammar_.characters(normalized(digits)), call(to)}));
  }
  NodeId body(const State& state) {
    const auto [place, remainder, nonzero] = state;
    std::vector<NodeId> ways;
    if (may_end(state)) ways.push_back(grammar_.sequence({}));
    if (place < decimals_) add_digits(state, '0', ways);
    const State behind{0, remainder, nonzero};
    if (place == kWhole && decimals_ > 0 && alive(behind)) ways.push_back(point(behind));
    return grammar_.choice(ways);
  }

  Grammar& grammar_;
  const std::int64_t step_;
  const int decimals_;
  const bool zero_;
  std::map<State, RuleId> rules_;
  std::map<State, bool> alive_;  // of fractions
  std::vector<State> open_;      // declared and not defined
};

// -12.5, of 125 units of the first decimal.
std::string written(std::int64_t units, int decimals) {
  const std::int64_t unit = power_of_ten(decimals);
  const std::int64_t magnitude = units < 0 ? -units : units;
  std::string text = fmt::format("{}{}", units < 0 ? "-" : "", magnitude / unit);
  if (magnitude % unit == 0) return text;
  text += fmt::format(".{:0{}}", magnitude % unit, decimals);
  text.resize(text.find_last_not_of('0') + 1);
  return text;
}

// All within the bounds, which are in units of 10^-decimals as the step is.
Result<NodeId> listed(Grammar& grammar, const Multiples& which, std::int64_t step, int decimals) {
  if (!which.min || !which.max)
    return fail(ErrorCode::kUnsupported,
                "'multipleOf' beside a bound on one side, unless it is a minimum of 0");
  const auto units = [&](const Bound& bound) { return in_units(bound.at, decimals); };
  const auto low = units(*which.min);
  const auto high = units(*which.max);
  if (!low || !high)
    return fail(ErrorCode::kUnsupported, "'multipleOf' beside bounds of over 18 digits");
  std::int64_t first = *low / step + (*low > 0 && *low % step != 0);
  std::int64_t last = *high / step - (*high < 0 && *high % step != 0);
  if (which.min->excluded && first * step == *low) ++first;
  if (which.max->excluded && last * step == *high) --last;
  if (first > last)
    return fail(ErrorCode::kInvalid, "no multiple of 'multipleOf' is within the bounds");
  if (last - first >= kMaxListed)
    return fail(ErrorCode::kUnsupported,
                "'multipleOf' beside bounds that hold {} multiples, limit {}", last - first + 1,
                kMaxListed);
  std::vector<NodeId> ways;
  for (std::int64_t i = first; i <= last; ++i)
    ways.push_back(grammar.text(written(i * step, decimals)));
  return grammar.choice(ways);
}

}  // namespace

Result<NodeId> multiples(Grammar& grammar, const Multiples& which) {
  int decimals = static_cast<int>(which.of.fraction.size());
  const auto given = decimals > kMaxDecimals ? std::nullopt : in_units(which.of, decimals);
  if (!given || *given > kMaxStep * power_of_ten(decimals))
    return fail(ErrorCode::kUnsupported, "'multipleOf' of over {} decimals or of over {}",
                kMaxDecimals, kMaxStep);
  std::int64_t step = *given;
  if (which.integers) {  // the multiples that are whole are those of a whole number
    step /= std::gcd(step, power_of_ten(decimals));
    decimals = 0;
  }
  const bool from_zero = which.min && which.min->at.is_zero() && !which.max;
  if ((which.min || which.max) && !from_zero) {
    // Bounds may have more decimals than the multiples.
    int places = decimals;
    for (const auto& bound : {which.min, which.max})
      if (bound) places = std::max(places, static_cast<int>(bound->at.fraction.size()));
    if (places > kMaxDecimals)
      return fail(ErrorCode::kUnsupported, "'multipleOf' beside a bound of over {} decimals",
                  kMaxDecimals);
    return listed(grammar, which, step * power_of_ten(places - decimals), places);
  }
  if (step > kMaxStep)
    return fail(ErrorCode::kUnsupported, "'multipleOf' of over {} in units of its last decimal",
                kMaxStep);
  const NodeId magnitude =
      Digits(grammar, step, decimals, !(from_zero && which.min->excluded)).magnitudes();
  if (from_zero) return magnitude;
  return grammar.sequence({grammar.optional(grammar.text("-")), magnitude});
}

}  // namespace saccade::grammar
