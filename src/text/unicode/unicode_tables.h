// Properties of characters as the `tokenizers` package has them, which mixes several Unicode
// versions; see tools/goldens/unicode_tables.py.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace saccade {

struct CodeRange {
  char32_t first = 0;
  char32_t last = 0;
};

struct CategoryRange {
  char32_t first = 0;
  char32_t last = 0;
  std::string_view category;  // "Lo"
};

struct CaseRange {
  char32_t first = 0;
  char32_t last = 0;
  int distance = 0;
};

// Each sorted by `first`.
struct UnicodeTables {
  std::span<const CategoryRange> since_15;           // Unicode 15 to 16
  std::span<const CodeRange> outside_forms;          // every normal form leaves them alone
  std::span<const CodeRange> outside_compatibility;  // NFKC and NFKD do
  std::span<const CaseRange> lower;                  // lower case since Unicode 15
  std::span<const CodeRange> combining;
  std::span<const CodeRange> accents;      // BERT strips them
  std::span<const CodeRange> control;      // BERT removes them
  std::span<const CodeRange> punctuation;  // BERT cuts at them
  std::span<const CodeRange> numeric;      // Digits cuts at them
};
extern const UnicodeTables kUnicodeTables;

// The range that holds `code`, or null.
template <typename Range>
const Range* find_range(std::span<const Range> ranges, char32_t code) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                      [](char32_t c, const Range& r) { return c < r.first; });
  if (after == ranges.begin()) return nullptr;
  const Range& range = *(after - 1);
  return code <= range.last ? &range : nullptr;
}

inline bool in_ranges(std::span<const CodeRange> ranges, char32_t code) {
  return find_range(ranges, code) != nullptr;
}

}  // namespace saccade
