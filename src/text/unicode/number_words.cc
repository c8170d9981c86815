#include "text/unicode/number_words.h"

#include <array>
#include <cstddef>
#include <string_view>

#include "base/check.h"

namespace saccade {
namespace {

constexpr std::array<std::string_view, 20> kSmall = {
    "zero",     "one",     "two",     "three",     "four",     "five",    "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<std::string_view, 10> kTens = {
    "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};

std::string below_hundred(std::size_t number) {
  if (number < kSmall.size()) return std::string(kSmall[number]);
  std::string words(kTens[number / 10]);
  if (number % 10 != 0) words.append("-").append(kSmall[number % 10]);
  return words;
}

std::string below_thousand(std::size_t number) {
  if (number < 100) return below_hundred(number);
  std::string words = std::string(kSmall[number / 100]) + " hundred";
  if (number % 100 != 0) words += " and " + below_hundred(number % 100);
  return words;
}

}  // namespace

std::string number_words(std::int64_t number) {
  CHECK(number >= 0 && number < 1'000'000, "{} in words", number);
  const auto thousands = static_cast<std::size_t>(number / 1000);
  const auto rest = static_cast<std::size_t>(number % 1000);
  if (thousands == 0) return below_thousand(rest);
  std::string words = below_thousand(thousands) + " thousand";
  if (rest != 0) words += (rest < 100 ? " and " : ", ") + below_thousand(rest);
  return words;
}

}  // namespace saccade
