#include "serve/media/media_reference.h"

#include <fmt/format.h>

#include <algorithm>

namespace saccade::serve {

bool has_scheme(std::string_view reference, std::string_view scheme) {
  return reference.size() >= scheme.size() &&
         std::equal(scheme.begin(), scheme.end(), reference.begin(),
                    [](char s, char r) { return s == (r >= 'A' && r <= 'Z' ? r + 32 : r); });
}

std::string_view trimmed(std::string_view reference) {
  const auto outside = [](char c) { return static_cast<unsigned char>(c) <= 0x20; };
  while (!reference.empty() && outside(reference.front())) reference.remove_prefix(1);
  while (!reference.empty() && outside(reference.back())) reference.remove_suffix(1);
  return reference;
}

std::string shortened(std::string_view reference) {
  constexpr std::size_t kShown = 80;
  if (reference.starts_with("data:")) {
    const std::string_view head = reference.substr(0, std::min(reference.find(','), kShown));
    return fmt::format("{},... ({} characters)", head, reference.size());
  }
  if (reference.size() <= kShown) return std::string(reference);
  return fmt::format("{}... ({} characters)", reference.substr(0, kShown), reference.size());
}

}  // namespace saccade::serve
