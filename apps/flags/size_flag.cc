#include "apps/flags/size_flag.h"

#include <array>
#include <charconv>
#include <cmath>

namespace saccade {
namespace {

constexpr std::string_view kDecimal = "kmgt";
constexpr std::string_view kBinary = "KMGT";
constexpr double kMost = 9e18;  // below 2^63

tl::unexpected<Error> bad(std::string_view text) {
  return fail(ErrorCode::kInvalid, "'{}' is no number such as 4096, 4k (4000) or 4K (4096)", text);
}

}  // namespace

Result<std::int64_t> parse_count(std::string_view text) {
  const std::string_view whole = text;
  if (text.empty()) return bad(whole);
  const std::size_t decimal = kDecimal.find(text.back());
  const std::size_t binary = kBinary.find(text.back());
  double scale = 1;
  if (decimal != std::string_view::npos) scale = std::pow(1000.0, static_cast<double>(decimal) + 1);
  if (binary != std::string_view::npos) scale = std::pow(1024.0, static_cast<double>(binary) + 1);
  if (scale != 1) text.remove_suffix(1);
  const char* const last = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [end, error] = std::from_chars(text.data(), last, integer);
      error == std::errc() && end == last) {
    if (std::abs(static_cast<double>(integer)) * scale > kMost) return bad(whole);
    return integer * static_cast<std::int64_t>(scale);
  }
  double fraction = 0;
  const auto [end, error] = std::from_chars(text.data(), last, fraction, std::chars_format::fixed);
  if (decimal == std::string_view::npos || error != std::errc() || end != last ||
      !(std::abs(fraction) * scale <= kMost))
    return bad(whole);
  return static_cast<std::int64_t>(fraction * scale);
}

CLI::Validator as_count() {
  return {[](std::string& text) {
            const auto count = parse_count(text);
            if (count) text = std::to_string(*count);
            return count ? std::string() : count.error().message;
          },
          ""};
}

CLI::Validator as_bytes() {
  return {[](std::string& text) {
            const auto count = parse_count(text);
            if (!count) return CLI::AsSizeValue(false)(text);
            text = std::to_string(*count);
            return std::string();
          },
          ""};
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::array kUnits = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes > 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return std::to_string(bytes) + kUnits[unit];
}

CLI::Option* add_bytes(CLI::App& cmd, const std::string& names, std::size_t& value,
                       const std::string& description) {
  return cmd.add_option(names, value, description)
      ->transform(as_bytes())
      ->default_str(bytes_text(value));
}

}  // namespace saccade
