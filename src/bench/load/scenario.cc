#include "bench/load/scenario.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace saccade::bench {
namespace {

constexpr double kMaxTokens = 100'000'000;
constexpr double kMaxScenarioSide = 65'535;
constexpr double kMaxImages = 1'000;

tl::unexpected<Error> not_understood(std::string_view text, std::string_view why) {
  return fail(ErrorCode::kInvalid,
              "traffic scenario '{}': {}. Known are D(in,out), N(mean,sd)/(mean,sd), "
              "U(low,high)/(low,high), E(tokens), R(document,query), I(width,height[,images]) and "
              "dataset",
              text, why);
}

// "(1,2)/(3,4)" as {{1,2},{3,4}}; nothing when it is not of that form.
using Groups = std::vector<std::vector<double>>;
bool parse_groups(std::string_view text, Groups& groups) {
  while (!text.empty()) {
    if (text.front() != '(') return false;
    const std::size_t close = text.find(')');
    if (close == std::string_view::npos) return false;
    std::string_view inside = text.substr(1, close - 1);
    std::vector<double> numbers;
    for (;;) {
      const std::string_view word = inside.substr(0, inside.find(','));
      double value = 0;
      const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (code != std::errc() || end != word.data() + word.size() || !std::isfinite(value))
        return false;
      numbers.push_back(value);
      if (word.size() == inside.size()) break;
      inside.remove_prefix(word.size() + 1);
    }
    groups.push_back(std::move(numbers));
    text.remove_prefix(close + 1);
    if (text.empty()) return true;
    if (text.front() != '/') return false;
    text.remove_prefix(1);
    if (text.empty()) return false;
  }
  return false;
}

bool whole(double v, double low, double high) {
  return v >= low && v <= high && v == std::floor(v);
}

LengthLaw fixed(double length) { return {LengthLaw::Kind::kFixed, length, 0}; }

// U takes (high) as (1, high).
bool uniform(const std::vector<double>& numbers, LengthLaw& law) {
  const double low = numbers.size() == 1 ? 1 : numbers[0];
  const double high = numbers.back();
  law = {LengthLaw::Kind::kUniform, low, high};
  return numbers.size() <= 2 && whole(low, 1, kMaxTokens) && whole(high, low, kMaxTokens);
}

bool normal(const std::vector<double>& numbers, LengthLaw& law) {
  if (numbers.size() != 2) return false;
  law = {LengthLaw::Kind::kNormal, numbers[0], numbers[1]};
  return numbers[0] >= 1 && numbers[0] <= kMaxTokens && numbers[1] >= 0 && numbers[1] <= kMaxTokens;
}

// The groups behind the letter; false when their numbers make no sense.
bool interpret(char letter, const Groups& groups, Scenario& scenario) {
  const bool one = groups.size() == 1;
  const std::vector<double>& first = groups.front();
  switch (letter) {
    case 'D':
    case 'R':
      scenario.kind = letter == 'D' ? Scenario::Kind::kText : Scenario::Kind::kRerank;
      if (!one || first.size() != 2) return false;
      scenario.input = fixed(first[0]);
      scenario.output = fixed(first[1]);
      return whole(first[0], 1, kMaxTokens) && whole(first[1], 1, kMaxTokens);
    case 'E':
      scenario.kind = Scenario::Kind::kEmbedding;
      if (!one || first.size() != 1) return false;
      scenario.input = fixed(first[0]);
      return whole(first[0], 1, kMaxTokens);
    case 'N':
      scenario.kind = Scenario::Kind::kText;
      return groups.size() == 2 && normal(groups[0], scenario.input) &&
             normal(groups[1], scenario.output);
    case 'U':
      scenario.kind = Scenario::Kind::kText;
      return groups.size() == 2 && uniform(groups[0], scenario.input) &&
             uniform(groups[1], scenario.output);
    case 'I':
      scenario.kind = Scenario::Kind::kImage;
      if (!one || first.size() < 2 || first.size() > 3) return false;
      if (!whole(first[0], 1, kMaxScenarioSide) || !whole(first[1], 1, kMaxScenarioSide))
        return false;
      if (first.size() == 3 && !whole(first[2], 1, kMaxImages)) return false;
      scenario.width = static_cast<std::int32_t>(first[0]);
      scenario.height = static_cast<std::int32_t>(first[1]);
      scenario.images = first.size() == 3 ? static_cast<std::int32_t>(first[2]) : 1;
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<Scenario> parse_scenario(std::string_view text) {
  if (text.size() > 1'000) return not_understood(text.substr(0, 40), "it is too long");
  Scenario scenario;
  for (const char c : text)
    if (c != ' ' && c != '\t') scenario.text += c;
  if (scenario.text == "dataset") return scenario;
  Groups groups;
  if (scenario.text.empty() || !parse_groups(std::string_view(scenario.text).substr(1), groups))
    return not_understood(text, "it is not a letter and numbers in parentheses");
  if (!interpret(scenario.text.front(), groups, scenario))
    return not_understood(text, "letter and numbers do not fit together");
  return scenario;
}

std::int32_t draw_length(const LengthLaw& law, Rng& rng) {
  double length = law.a;
  if (law.kind == LengthLaw::Kind::kUniform) {
    length = law.a + static_cast<double>(rng.below(static_cast<std::uint64_t>(law.b - law.a) + 1));
  } else if (law.kind == LengthLaw::Kind::kNormal) {
    const double radius = std::sqrt(-2 * std::log1p(-rng.uniform()));
    length = std::round(law.a + law.b * radius * std::cos(2 * M_PI * rng.uniform()));
  }
  return static_cast<std::int32_t>(std::clamp(length, 1.0, kMaxTokens));
}

}  // namespace saccade::bench
