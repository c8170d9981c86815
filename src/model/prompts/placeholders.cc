#include "model/prompts/placeholders.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace saccade {
namespace {

// U+FDD0 to U+FDD2 as UTF-8: begin and end of a literal, and the escape for these three.
constexpr std::string_view kBegin = "\xEF\xB7\x90";
constexpr std::string_view kEnd = "\xEF\xB7\x91";
constexpr std::string_view kEscape = "\xEF\xB7\x92";
constexpr std::array<std::string_view, 3> kMarks = {kBegin, kEnd, kEscape};
constexpr std::string_view kMarkPrefix = "\xEF\xB7";

// Index in kMarks of the mark that `text` begins with, or -1.
int mark_at(std::string_view text) {
  for (std::size_t i = 0; i < kMarks.size(); ++i) {
    if (text.starts_with(kMarks[i])) return static_cast<int>(i);
  }
  return -1;
}

// A stretch of a rendered prompt with its marks undone.
struct Segment {
  std::string text;
  bool literal = false;
};

std::vector<Segment> split_at_marks(std::string_view rendered) {
  std::vector<Segment> segments(1);
  for (std::size_t i = 0; i < rendered.size();) {
    const int mark = mark_at(rendered.substr(i));
    if (mark < 0) {
      segments.back().text += rendered[i++];
      continue;
    }
    i += kBegin.size();
    if (mark < 2) {
      segments.push_back({{}, mark == 0});
    } else if (i < rendered.size() && rendered[i] >= '0' && rendered[i] <= '2') {
      segments.back().text += kMarks[static_cast<std::size_t>(rendered[i++] - '0')];
    }
  }
  return segments;
}

}  // namespace

std::string guard(std::string_view user_text, std::span<const std::string_view> literals) {
  std::string out;
  out.reserve(user_text.size());
  for (std::size_t i = 0; i < user_text.size();) {
    const std::string_view rest = user_text.substr(i);
    const auto literal = std::ranges::find_if(
        literals, [&](std::string_view candidate) { return rest.starts_with(candidate); });
    if (literal != literals.end()) {
      out.append(kBegin).append(*literal).append(kEnd);
      i += literal->size();
    } else if (const int mark = mark_at(rest); mark >= 0) {
      out.append(kEscape).push_back(static_cast<char>('0' + mark));
      i += kEscape.size();
    } else {
      out += user_text[i++];
    }
  }
  return out;
}

std::vector<TokenId> encode_guarded(const Tokenizer& tokenizer, std::string_view rendered,
                                    bool add_special_tokens) {
  if (rendered.find(kMarkPrefix) == std::string_view::npos)
    return tokenizer.encode(rendered, {.add_special_tokens = add_special_tokens});
  std::vector<TokenId> ids;
  for (const Segment& segment : split_at_marks(rendered)) {
    const auto part = tokenizer.encode(segment.text, {.add_special_tokens = add_special_tokens,
                                                      .parse_special_tokens = !segment.literal});
    ids.insert(ids.end(), part.begin(), part.end());
    add_special_tokens = false;  // they stand at the front
  }
  return ids;
}

Result<ExpandedPrompt> expand_placeholders(std::span<const TokenId> ids, TokenId placeholder,
                                           std::span<const std::int64_t> counts) {
  const auto found = std::ranges::count(ids, placeholder);
  if (static_cast<std::size_t>(found) != counts.size())
    return fail(ErrorCode::kInvalid, "the prompt has {} image placeholders for {} images", found,
                counts.size());
  ExpandedPrompt expanded;
  for (const TokenId id : ids) {
    if (id != placeholder) {
      expanded.ids.push_back(id);
      continue;
    }
    const std::size_t index = expanded.images.size();
    expanded.images.push_back({.begin = static_cast<std::int64_t>(expanded.ids.size()),
                               .tokens = counts[index],
                               .index = static_cast<int>(index)});
    expanded.ids.insert(expanded.ids.end(), static_cast<std::size_t>(counts[index]), placeholder);
  }
  return expanded;
}

void GridPositions::add_text(std::int64_t tokens) {
  for (auto& axis : axes_) {
    for (std::int64_t i = 0; i < tokens; ++i) axis.push_back(static_cast<std::int32_t>(next_ + i));
  }
  next_ += tokens;
}

void GridPositions::add_grid(std::int64_t t, std::int64_t h, std::int64_t w) {
  std::vector<std::int32_t> times(static_cast<std::size_t>(t));
  std::iota(times.begin(), times.end(), 0);
  add_grid(times, h, w);
}

void GridPositions::add_grid(std::span<const std::int32_t> times, std::int64_t h, std::int64_t w) {
  for (const std::int32_t time : times) {
    for (std::int64_t row = 0; row < h; ++row) {
      for (std::int64_t column = 0; column < w; ++column) {
        axes_[0].push_back(static_cast<std::int32_t>(next_ + time));
        axes_[1].push_back(static_cast<std::int32_t>(next_ + row));
        axes_[2].push_back(static_cast<std::int32_t>(next_ + column));
      }
    }
  }
  const std::int64_t duration = times.empty() ? 0 : std::int64_t{times.back()} + 1;
  next_ += std::max({duration, h, w});
}

}  // namespace saccade
