#include "text/jinja/builtins/number_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/print.h"

namespace saccade::jinja {
namespace {

std::string print(const char* layout, int precision, double number) {
  std::string text(static_cast<std::size_t>(precision) + 400, '\0');
  const int length = std::snprintf(text.data(), text.size(), layout, precision, number);
  text.resize(static_cast<std::size_t>(std::max(length, 0)));
  return text;
}

// "1.5e+02" -> 2
int exponent_of(double magnitude, int significant) {
  const std::string text = print("%.*e", significant - 1, magnitude);
  return std::atoi(text.c_str() + text.find('e') + 1);
}

// g that keeps a digit after the point, as format(x, ".3") does.
std::string general_with_point(double magnitude, int precision) {
  const int significant = std::max(precision, 1);
  const int exponent = exponent_of(magnitude, significant);
  if (exponent < -4 || exponent >= significant - 1) {
    std::string text = print("%.*e", significant - 1, magnitude);
    const std::size_t e = text.find('e');
    std::string digits = text.substr(0, e);
    if (digits.find('.') != std::string::npos) {
      digits.erase(digits.find_last_not_of('0') + 1);
      if (digits.back() == '.') digits.pop_back();
    }
    return digits + text.substr(e);
  }
  std::string text = print("%.*g", significant, magnitude);
  if (text.find('.') == std::string::npos && text.find('e') == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string integer_digits(Integer magnitude, char type, bool alternate) {
  if (type == 'd') return to_string(magnitude);
  const int base = type == 'b' ? 2 : type == 'o' ? 8 : 16;
  std::string digits;
  for (Integer rest = magnitude; rest != 0 || digits.empty(); rest /= base) {
    const int digit = static_cast<int>(rest % base);
    digits += (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[digit];
  }
  if (alternate) digits += fmt::format("{}0", type);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string float_digits(double magnitude, char type, int precision, bool alternate) {
  const bool upper = type == 'E' || type == 'F' || type == 'G';
  if (std::isnan(magnitude)) return upper ? "NAN" : "nan";
  if (std::isinf(magnitude)) return upper ? "INF" : "inf";
  if (type == 0) {
    return precision < 0 ? float_repr(magnitude) : general_with_point(magnitude, precision);
  }
  if (precision < 0) precision = 6;
  const std::string layout = fmt::format("%{}.*{}", alternate ? "#" : "", type);
  return print(layout.c_str(), precision, magnitude);
}

std::string group_digits(const std::string& digits, char separator, int group) {
  std::size_t count = 0;  // leading digits; what follows is a fraction or an exponent
  while (count < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[count])) != 0 &&
         (group == 4 || std::isdigit(static_cast<unsigned char>(digits[count])) != 0)) {
    ++count;
  }
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && (count - i) % static_cast<std::size_t>(group) == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(count);
}

}  // namespace saccade::jinja
