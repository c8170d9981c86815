// How often a word stands in a text.
#pragma once

#include <cstddef>
#include <string>

namespace saccade::test {

inline std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++found;
  return found;
}

}  // namespace saccade::test
