#include "text/jinja/builtins/text_methods.h"

#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins/format.h"
#include "text/jinja/print.h"
#include "text/jinja/wrong.h"
#include "text/unicode/python_text.h"
#include "text/unicode/unicode.h"

namespace saccade::jinja {
namespace {

// A result keeps its receiver's markup, as markupsafe's methods do.
Value like(RenderState& state, const Value& self, std::string_view text) {
  return state.string(std::string(text), self.as_text().markup);
}

Value pieces(RenderState& state, const Value& self, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(like(state, self, part));
  return state.list(std::move(items));
}

// Text taken in by markup is escaped on the way.
std::string taken_in(const Value& self, const Value& other) {
  const bool escape = self.as_text().markup && !other.as_text().markup;
  return escape ? escape_html(other.view()) : std::string(other.view());
}

// The part of `self` between the character positions in arguments `at` and `at` + 1.
struct Window {
  std::string_view text;
  std::int64_t start = 0;     // in characters
  bool empty_before = false;  // start lies past the end: nothing is found, not even ""
};
Result<Window> window(const Value& self, const Bound& bound, std::size_t at) {
  const std::int64_t count = self.as_text().characters;
  const auto position = [&](std::size_t i, std::int64_t absent) -> Result<std::int64_t> {
    if (!bound.says(i)) return absent;
    TRY(std::int64_t value, bound.integer(i, absent));
    return value < 0 ? std::max<std::int64_t>(value + count, 0) : value;
  };
  TRY(const std::int64_t start, position(at, 0));
  TRY(const std::int64_t end, position(at + 1, count));
  if (start > count || end < start) return Window{{}, start, true};
  const std::string_view text = self.view();
  const std::size_t begin = byte_of(text, start);
  const std::string_view rest = text.substr(begin);
  return Window{rest.substr(0, byte_of(rest, end - start)), start};
}

template <std::string (*map)(std::string_view)>
Result<Value> mapped_self(RenderState& state, const Value& self, Arguments& arguments) {
  TRY_DO(Bound::bind("str method", arguments, {}, 0));
  TRY_DO(state.charge_bytes(self.view().size() * 8));
  return like(state, self, map(self.view()));
}

template <Trait trait>
Result<Value> is(RenderState& state, const Value& self, Arguments& arguments) {
  TRY_DO(Bound::bind("str method", arguments, {}, 0));
  TRY_DO(state.charge_bytes(self.view().size() * 8));
  return Value::boolean(has_trait(self.view(), trait));
}

template <bool left, bool right>
Result<Value> stripped(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("strip", arguments, {""}, 0));
  std::optional<std::string_view> chars;
  if (bound.says(0)) {
    TRY(chars, bound.text(0));
    TRY_DO(state.charge_search(self.view(), *chars));
  }
  TRY_DO(state.charge_bytes(self.view().size()));
  return like(state, self, strip(self.view(), chars, left, right));
}

template <bool from_right>
Result<Value> split_text(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("split", arguments, {"sep", "maxsplit"}, 0));
  TRY(const std::int64_t limit, bound.integer(1, -1));
  const std::string_view text = self.view();
  TRY_DO(state.charge_bytes(text.size() * 8));
  std::vector<std::string_view> parts;
  if (bound.says(0)) {
    TRY(const std::string_view separator, bound.text(0));
    if (separator.empty()) return wrong("empty separator");
    TRY_DO(state.charge_search(text, separator));
    parts = from_right ? rsplit(text, separator, limit) : split(text, separator, limit);
  } else {
    parts = from_right ? rsplit_space(text, limit) : split_space(text, limit);
  }
  TRY_DO(state.allow_elements(parts.size()));
  return pieces(state, self, parts);
}

Result<Value> text_splitlines(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("splitlines", arguments, {"keepends"}, 0));
  TRY_DO(state.charge_bytes(self.view().size() * 8));
  const auto lines = split_lines(self.view(), bound.flag(0, false));
  TRY_DO(state.allow_elements(lines.size()));
  return pieces(state, self, lines);
}

// startswith and endswith: one affix, or any of a tuple.
template <bool at_start>
Result<Value> has_affix(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("startswith", arguments, {"", "", ""}, 1));
  TRY(const Window part, window(self, bound, 1));
  const auto matches = [&](std::string_view affix) {
    if (part.empty_before) return false;
    return at_start ? part.text.starts_with(affix) : part.text.ends_with(affix);
  };
  if (bound[0]->is_string()) return Value::boolean(matches(bound[0]->view()));
  if (!bound[0]->is(Kind::kTuple)) {
    return wrong("{} first arg must be str or a tuple of str, not {}",
                 at_start ? "startswith" : "endswith", type_name(*bound[0]));
  }
  for (const Value& affix : bound[0]->as<Sequence>().items) {
    TRY_DO(state.charge());
    if (!affix.is_string()) return wrong("tuple for startswith must only contain str");
    if (matches(affix.view())) return Value::boolean(true);
  }
  return Value::boolean(false);
}

template <bool from_right, bool must>
Result<Value> find_text(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("find", arguments, {"", "", ""}, 1));
  TRY(const std::string_view what, bound.text(0));
  TRY(const Window part, window(self, bound, 1));
  TRY_DO(state.charge_search(self.view(), what));
  const std::size_t found = part.empty_before ? std::string_view::npos
                            : from_right      ? part.text.rfind(what)
                                              : part.text.find(what);
  if (found != std::string_view::npos) {
    return Value::integer(part.start + character_count(part.text.substr(0, found)));
  }
  if (must) return wrong("substring not found");
  return Value::integer(-1);
}

Result<Value> text_count(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("count", arguments, {"", "", ""}, 1));
  TRY(const std::string_view what, bound.text(0));
  TRY(const Window part, window(self, bound, 1));
  TRY_DO(state.charge_search(self.view(), what));
  return Value::integer(part.empty_before ? 0 : count_of(part.text, what));
}

Result<Value> text_replace(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("replace", arguments, {"", "", ""}, 2));
  TRY(const std::string_view what, bound.text(0));
  TRY_DO(bound.text(1));
  TRY(const std::int64_t limit, bound.integer(2, -1));
  const std::string with = taken_in(self, *bound[1]);
  const std::string_view text = self.view();
  TRY_DO(state.charge_search(text, what));
  std::int64_t times = count_of(text, what);
  if (limit >= 0) times = std::min(times, limit);
  TRY_DO(state.allow_string(text.size() + static_cast<std::size_t>(times) * with.size()));
  return like(state, self, replace(text, what, with, limit));
}

Result<Value> text_join(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("join", arguments, {""}, 1));
  TRY(Cursor cursor, Cursor::over(*bound[0]));
  std::string out;
  for (std::int64_t at = 0;; ++at) {
    TRY(const std::optional<Value> item, cursor.next(state));
    if (!item) return like(state, self, out);
    if (!item->is_string()) {
      return wrong("sequence item {}: expected str instance, {} found", at, type_name(*item));
    }
    if (at > 0) out += self.view();
    out += taken_in(self, *item);
    TRY_DO(state.charge_bytes(item->view().size() + self.view().size()));
    if (out.size() > state.limits().max_string_bytes) TRY_DO(state.allow_string(out.size()));
  }
}

template <bool from_right>
Result<Value> text_partition(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("partition", arguments, {""}, 1));
  TRY(const std::string_view separator, bound.text(0));
  if (separator.empty()) return wrong("empty separator");
  const std::string_view text = self.view();
  TRY_DO(state.charge_search(text, separator));
  const std::size_t found = from_right ? text.rfind(separator) : text.find(separator);
  if (found == std::string_view::npos) {
    const Value whole = like(state, self, text), nothing = like(state, self, "");
    return from_right ? state.tuple({nothing, nothing, whole})
                      : state.tuple({whole, nothing, nothing});
  }
  return state.tuple({like(state, self, text.substr(0, found)), like(state, self, separator),
                      like(state, self, text.substr(found + separator.size()))});
}

template <bool prefix>
Result<Value> without_affix(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("removeprefix", arguments, {""}, 1));
  TRY(const std::string_view affix, bound.text(0));
  std::string_view text = self.view();
  if (prefix && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!prefix && text.ends_with(affix)) text.remove_suffix(affix.size());
  return like(state, self, text);
}

enum class Side { kLeft, kRight, kBoth };  // of the padding

template <Side side>
Result<Value> padded(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("ljust", arguments, {"", ""}, 1));
  TRY(const std::int64_t width, bound.integer(0, 0));
  TRY(const std::string_view fill, bound.text(1, " "));
  if (character_count(fill) != 1) {
    return wrong("The fill character must be exactly one character long");
  }
  const std::int64_t missing = width - self.as_text().characters;
  if (missing <= 0) return self;
  TRY_DO(state.allow_string(static_cast<std::size_t>(missing) * fill.size()));
  // Python's center leans left when both the gap and the width are odd.
  const std::int64_t left = side == Side::kRight  ? 0
                            : side == Side::kLeft ? missing
                                                  : missing / 2 + (missing & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += self.view();
  for (std::int64_t i = left; i < missing; ++i) out += fill;
  return like(state, self, out);
}

Result<Value> text_zfill(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("zfill", arguments, {""}, 1));
  TRY(const std::int64_t width, bound.integer(0, 0));
  const std::int64_t missing = width - self.as_text().characters;
  if (missing <= 0) return self;
  TRY_DO(state.allow_string(static_cast<std::size_t>(missing)));
  std::string out(self.view());
  const bool has_sign = out.starts_with('+') || out.starts_with('-');
  out.insert(has_sign ? 1 : 0, static_cast<std::size_t>(missing), '0');
  return like(state, self, out);
}

Result<Value> text_expandtabs(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("expandtabs", arguments, {"tabsize"}, 0));
  TRY(const std::int64_t tab, bound.integer(0, 8));
  const auto tabs =
      static_cast<std::size_t>(std::count(self.view().begin(), self.view().end(), '\t'));
  TRY_DO(state.allow_string(self.view().size() +
                            tabs * static_cast<std::size_t>(std::max<std::int64_t>(tab, 0))));
  std::string out;
  std::int64_t column = 0;
  for (const char c : self.view()) {
    if (c == '\t') {
      const std::int64_t spaces = tab > 0 ? tab - column % tab : 0;
      out.append(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
      continue;
    }
    out += c;
    if (c == '\n' || c == '\r') {
      column = 0;
    } else {
      column += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    }
  }
  return like(state, self, out);
}

Result<Value> text_format(RenderState& state, const Value& self, Arguments& arguments) {
  return brace_format(state, self.as_text(), arguments);
}

Result<Value> text_format_map(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("format_map", arguments, {""}, 1));
  if (!bound[0]->is(Kind::kDict)) return wrong("format_map() takes a dict");
  Arguments named;
  for (const auto& entry : bound[0]->as<Dict>().entries) {
    TRY_DO(state.charge());
    if (entry.key.is_string()) named.named.emplace_back(entry.key.view(), entry.value);
  }
  return brace_format(state, self.as_text(), named);
}

std::string casefold(std::string_view text) { return replace(lower(text), "ß", "ss", -1); }

constexpr Method kTextMethods[] = {
    {"capitalize", mapped_self<capitalize>},
    {"casefold", mapped_self<casefold>},
    {"center", padded<Side::kBoth>},
    {"count", text_count},
    {"endswith", has_affix<false>},
    {"expandtabs", text_expandtabs},
    {"find", find_text<false, false>},
    {"format", text_format},
    {"format_map", text_format_map},
    {"index", find_text<false, true>},
    {"isalnum", is<Trait::kAlnum>},
    {"isalpha", is<Trait::kAlpha>},
    {"isascii", is<Trait::kAscii>},
    {"isdecimal", is<Trait::kDecimal>},
    {"isdigit", is<Trait::kDigit>},
    {"isidentifier", is<Trait::kIdentifier>},
    {"islower", is<Trait::kLower>},
    {"isnumeric", is<Trait::kNumeric>},
    {"isprintable", is<Trait::kPrintable>},
    {"isspace", is<Trait::kSpace>},
    {"istitle", is<Trait::kTitle>},
    {"isupper", is<Trait::kUpper>},
    {"join", text_join},
    {"ljust", padded<Side::kRight>},
    {"lower", mapped_self<lower>},
    {"lstrip", stripped<true, false>},
    {"partition", text_partition<false>},
    {"removeprefix", without_affix<true>},
    {"removesuffix", without_affix<false>},
    {"replace", text_replace},
    {"rfind", find_text<true, false>},
    {"rindex", find_text<true, true>},
    {"rjust", padded<Side::kLeft>},
    {"rpartition", text_partition<true>},
    {"rsplit", split_text<true>},
    {"rstrip", stripped<false, true>},
    {"split", split_text<false>},
    {"splitlines", text_splitlines},
    {"startswith", has_affix<true>},
    {"strip", stripped<true, true>},
    {"swapcase", mapped_self<swap_case>},
    {"title", mapped_self<title>},
    {"upper", mapped_self<upper>},
    {"zfill", text_zfill},
};

}  // namespace

std::span<const Method> text_methods() { return kTextMethods; }

}  // namespace saccade::jinja
