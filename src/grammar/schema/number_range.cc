#include "grammar/schema/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxDigits = 40;

NodeId digits_between(Grammar& grammar, char first, char last) {
  return grammar.characters({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}

NodeId any_digits(Grammar& grammar, std::size_t count) {
  const auto times = static_cast<std::uint32_t>(count);
  return grammar.repeat(digits_between(grammar, '0', '9'), times, times);
}

// Texts of as many digits as both bounds have, from `low` to `high`; a bound that is left behind is
// null.
NodeId same_length(Grammar& grammar, const std::string* low, const std::string* high,
                   std::size_t from, std::size_t length) {
  if (from == length) return grammar.text("");
  if (!low && !high) return any_digits(grammar, length - from);
  const char first = low ? (*low)[from] : '0';
  const char last = high ? (*high)[from] : '9';
  if (low && high && first == last) {
    return grammar.sequence(
        {grammar.text(std::string(1, first)), same_length(grammar, low, high, from + 1, length)});
  }
  std::vector<NodeId> ways;
  char inner_first = first;
  char inner_last = last;
  if (low) {
    ++inner_first;
    ways.push_back(grammar.sequence({grammar.text(std::string(1, first)),
                                     same_length(grammar, low, nullptr, from + 1, length)}));
  }
  if (high) {
    --inner_last;
    ways.push_back(grammar.sequence({grammar.text(std::string(1, last)),
                                     same_length(grammar, nullptr, high, from + 1, length)}));
  }
  if (inner_first <= inner_last) {
    ways.push_back(grammar.sequence({digits_between(grammar, inner_first, inner_last),
                                     any_digits(grammar, length - from - 1)}));
  }
  return grammar.choice(ways);
}

// Whole numbers from `low` on, to `high` if there is one; decimal, without leading zeros but for
// "0".
NodeId whole_range(Grammar& grammar, const std::string& low, const std::string* high) {
  const auto least_of = [](std::size_t length) {
    return length == 1 ? std::string("0") : "1" + std::string(length - 1, '0');
  };
  std::vector<NodeId> lengths;
  if (high && high->size() == low.size()) {
    return same_length(grammar, &low, high, 0, low.size());
  }
  lengths.push_back(same_length(grammar, &low, nullptr, 0, low.size()));
  const auto rest = static_cast<std::uint32_t>(low.size());  // digits after the first
  const bool between = !high || high->size() > low.size() + 1;
  if (between) {
    const std::uint32_t most = high ? static_cast<std::uint32_t>(high->size()) - 2 : kUnbounded;
    lengths.push_back(
        grammar.sequence({digits_between(grammar, '1', '9'),
                          grammar.repeat(digits_between(grammar, '0', '9'), rest, most)}));
  }
  if (high) {
    const std::string least = least_of(high->size());
    lengths.push_back(same_length(grammar, &least, high, 0, high->size()));
  }
  return grammar.choice(lengths);
}

std::string magnitude(std::int64_t value) {
  return value >= 0 ? fmt::format("{}", value) : fmt::format("{}", value).substr(1);
}

// The digits after the point, between a lower and an upper fraction that may be absent.
class Fraction {
 public:
  Fraction(Grammar& grammar, const Bound* low, const Bound* high)
      : grammar_(grammar), low_(low), high_(high) {
    if (low) length_ = std::max(length_, low->at.fraction.size());
    if (high) length_ = std::max(length_, high->at.fraction.size());
    digit_ = digits_between(grammar, '0', '9');
  }

  // The point and its digits, or nothing where nothing is enough.
  NodeId node() {
    std::vector<NodeId> ways;
    ways.push_back(grammar_.sequence(
        {grammar_.text("."), digits(0, low_ != nullptr, high_ != nullptr, false)}));
    if (may_end(0, low_ != nullptr, high_ != nullptr)) ways.push_back(grammar_.text(""));
    return grammar_.choice(ways);
  }

 private:
  static char digit_of(const Bound& bound, std::size_t at) {
    return at < bound.at.fraction.size() ? bound.at.fraction[at] : '0';
  }
  static bool rest_is_zero(const Bound& bound, std::size_t at) {
    return at >= bound.at.fraction.size();  // fractions have no trailing zeros
  }
  // `on_low`, `on_high`: the digits so far are the bound's own.
  bool may_end(std::size_t at, bool on_low, bool on_high) const {
    if (on_low && (!rest_is_zero(*low_, at) || low_->excluded)) return false;
    return !on_high || !rest_is_zero(*high_, at) || !high_->excluded;
  }

  NodeId digits(std::size_t at, bool on_low, bool on_high, bool may_stop) {
    if (!on_low && !on_high) return grammar_.repeat(digit_, may_stop ? 0 : 1, kUnbounded);
    if (at >= length_ && at > 0) return after_last(on_low, on_high);
    std::vector<NodeId> ways;
    if (may_stop && may_end(at, on_low, on_high)) ways.push_back(grammar_.text(""));
    const char first = on_low ? digit_of(*low_, at) : '0';
    const char last = on_high ? digit_of(*high_, at) : '9';
    for (char digit = first; digit <= last; ++digit) {
      const bool still_low = on_low && digit == first;
      const bool still_high = on_high && digit == last;
      char to = digit;
      if (!still_low && !still_high) to = static_cast<char>(on_high ? last - 1 : last);
      ways.push_back(grammar_.sequence(
          {digits_between(grammar_, digit, to), digits(at + 1, still_low, still_high, true)}));
      digit = to;
    }
    return grammar_.choice(ways);
  }

  // All digits of the bounds have been written, and are those of one of them.
  NodeId after_last(bool on_low, bool on_high) {
    const NodeId zeros = grammar_.repeat(grammar_.text("0"), 0, kUnbounded);
    std::vector<NodeId> ways;
    if (may_end(length_, on_low, on_high)) ways.push_back(zeros);
    if (!on_high) {
      ways.push_back(grammar_.sequence(
          {zeros, digits_between(grammar_, '1', '9'), grammar_.repeat(digit_, 0, kUnbounded)}));
    }
    return grammar_.choice(ways);
  }

  Grammar& grammar_;
  const Bound* low_;
  const Bound* high_;
  std::size_t length_ = 0;
  NodeId digit_ = 0;
};

std::string whole_of(const Decimal& value) { return value.whole.empty() ? "0" : value.whole; }

bool whole_less(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::string plus_one(std::string digits) {
  for (auto at = digits.rbegin(); at != digits.rend(); ++at) {
    if (*at != '9') {
      ++*at;
      return digits;
    }
    *at = '0';
  }
  return "1" + digits;
}

std::string minus_one(std::string digits) {  // of at least 1
  for (auto at = digits.rbegin(); at != digits.rend(); ++at) {
    if (*at != '0') {
      --*at;
      break;
    }
    *at = '9';
  }
  if (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  return digits;
}

// Magnitudes from `low` to `high`, neither negative.
NodeId magnitude_range(Grammar& grammar, const Bound& low, const Bound* high) {
  const std::string low_whole = whole_of(low.at);
  std::vector<NodeId> ways;
  if (high && whole_of(high->at) == low_whole) {
    return grammar.sequence({grammar.text(low_whole), Fraction(grammar, &low, high).node()});
  }
  if (high && whole_less(whole_of(high->at), low_whole)) return grammar.choice({});
  ways.push_back(
      grammar.sequence({grammar.text(low_whole), Fraction(grammar, &low, nullptr).node()}));
  const std::string above = plus_one(low_whole);
  const NodeId free = Fraction(grammar, nullptr, nullptr).node();
  if (!high) {
    ways.push_back(grammar.sequence({whole_range(grammar, above, nullptr), free}));
    return grammar.choice(ways);
  }
  const std::string high_whole = whole_of(high->at);
  if (whole_less(above, high_whole)) {
    const std::string below = minus_one(high_whole);
    ways.push_back(grammar.sequence({whole_range(grammar, above, &below), free}));
  }
  ways.push_back(
      grammar.sequence({grammar.text(high_whole), Fraction(grammar, nullptr, high).node()}));
  return grammar.choice(ways);
}

}  // namespace

Result<NodeId> integer_range(Grammar& grammar, std::optional<std::int64_t> min,
                             std::optional<std::int64_t> max) {
  if (min && max && *min > *max) {
    return fail(ErrorCode::kInvalid, "no integer is from {} to {}", *min, *max);
  }
  std::vector<NodeId> ways;
  if (!min || *min < 0) {
    const std::string low = magnitude(max && *max < 0 ? *max : 1);
    const std::string high = min ? magnitude(*min) : "";
    ways.push_back(
        grammar.sequence({grammar.text("-"), whole_range(grammar, low, min ? &high : nullptr)}));
  }
  if (!max || *max >= 0) {
    const std::string low = magnitude(min && *min > 0 ? *min : 0);
    const std::string high = max ? magnitude(*max) : "";
    ways.push_back(whole_range(grammar, low, max ? &high : nullptr));
  }
  return grammar.choice(ways);
}

Result<Decimal> decimal_of(double value) {
  if (!std::isfinite(value)) return fail(ErrorCode::kUnsupported, "{} as a bound", value);
  std::string text = fmt::format("{:e}", std::abs(value));
  // The shortest digits that read back, with their exponent.
  for (int precision = 0; precision <= 17; ++precision) {
    text = fmt::format("{:.{}e}", std::abs(value), precision);
    if (std::stod(text) == std::abs(value)) break;
  }
  const std::size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  std::string digits = text.substr(0, e);
  std::erase(digits, '.');
  Decimal decimal;
  decimal.negative = value < 0;
  const auto point = static_cast<std::int64_t>(exponent) + 1;  // digits before it
  if (point > static_cast<std::int64_t>(kMaxDigits) ||
      point < -static_cast<std::int64_t>(kMaxDigits)) {
    return fail(ErrorCode::kUnsupported, "the bound {} has over {} digits", value, kMaxDigits);
  }
  if (point <= 0) digits.insert(0, static_cast<std::size_t>(1 - point), '0');
  const auto cut = static_cast<std::size_t>(std::max<std::int64_t>(point, 1));
  if (digits.size() < cut) digits.append(cut - digits.size(), '0');
  decimal.whole = digits.substr(0, cut);
  decimal.fraction = digits.substr(cut);
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size()));
  const std::size_t last = decimal.fraction.find_last_not_of('0');
  decimal.fraction.resize(last == std::string::npos ? 0 : last + 1);
  return decimal;
}

Result<NodeId> number_range(Grammar& grammar, const std::optional<Bound>& min,
                            const std::optional<Bound>& max) {
  const auto negative = [](const std::optional<Bound>& bound) {
    return bound && bound->at.negative && !bound->at.is_zero();
  };
  const Bound zero{{}, false};
  const Bound above_zero{{}, true};
  std::vector<NodeId> ways;
  if (!min || negative(min)) {
    const Bound low = negative(max) ? *max : above_zero;
    ways.push_back(grammar.sequence(
        {grammar.text("-"), magnitude_range(grammar, low, min ? &*min : nullptr)}));
  }
  if (!negative(max)) {
    const Bound low = min && !negative(min) ? *min : zero;
    ways.push_back(magnitude_range(grammar, low, max ? &*max : nullptr));
  }
  return grammar.choice(ways);
}

}  // namespace saccade::grammar
