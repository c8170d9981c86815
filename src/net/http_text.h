// Text inside HTTP messages and URLs.
#pragma once

#include <string>
#include <string_view>

namespace saccade::net {

// "%41b" is "Ab"; a percent sign that starts no escape stays.
std::string percent_decode(std::string_view text);

// Without the blanks and tabs around it (RFC 9110's OWS).
constexpr std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace saccade::net
