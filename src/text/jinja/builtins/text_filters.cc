// Filters that take or make text (jinja_filters.h).
#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/wrong.h"
#include "text/unicode/python_text.h"
#include "text/unicode/unicode.h"

namespace saccade::jinja {
namespace {

// str(value), except that markup stays markup.
Result<Value> soft_text(RenderState& state, const Value& value) {
  if (value.is_string()) return value;
  TRY(std::string text, to_str(state, value));
  return state.string(std::move(text));
}

template <std::string (*map)(std::string_view)>
Result<Value> mapped(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("filter", arguments, {}, 0));
  TRY(const Value text, soft_text(state, input));
  TRY_DO(state.charge_bytes(text.view().size() * 8));
  return state.string(map(text.view()), text.as_text().markup);
}

// The filter's own idea of a title: words start after spaces and opening brackets only.
std::string title_words(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto separates = [&](std::size_t from, std::size_t& next) {
      next = from;
      const char32_t code = next_character(text, next);
      return is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' ||
             code == '<';
    };
    std::size_t next = 0, end = at;
    const bool separator = separates(at, next);
    while (end < text.size() && separates(end, next) == separator) end = next;
    const std::size_t first = character_bytes(text[at]);
    out += upper(text.substr(at, first));
    out += lower(text.substr(at + first, end - at - first));
    at = end;
  }
  return out;
}

Result<Value> trim(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("trim", arguments, {"chars"}, 0));
  TRY(const Value text, soft_text(state, input));
  std::optional<std::string_view> chars;
  if (bound.says(0)) {
    TRY(chars, bound.text(0));
    TRY_DO(state.charge_search(text.view(), *chars));
  }
  return state.string(std::string(strip(text.view(), chars, true, true)), text.as_text().markup);
}

Result<Value> replace_text(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("replace", arguments, {"old", "new", "count"}, 2));
  TRY(const std::string text, to_str(state, input));
  TRY(const std::string what, to_str(state, *bound[0]));
  TRY(const std::string with, to_str(state, *bound[1]));
  std::int64_t limit = -1;
  if (bound.says(2)) {
    TRY(limit, bound.integer(2, -1));
  }
  TRY_DO(state.charge_search(text, what));
  std::int64_t times = count_of(text, what);
  if (limit >= 0) times = std::min(times, limit);
  TRY_DO(state.allow_string(text.size() + static_cast<std::size_t>(times) * with.size()));
  return state.string(replace(text, what, with, limit));
}

Result<Value> as_string(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("string", arguments, {}, 0));
  return soft_text(state, input);
}

Result<Value> mark_safe(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("safe", arguments, {}, 0));
  TRY(std::string text, to_str(state, input));
  return state.string(std::move(text), true);
}

template <bool twice>
Result<Value> escape(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("escape", arguments, {}, 0));
  if (!twice && input.is_string() && input.as_text().markup) return input;
  TRY(const std::string text, to_str(state, input));
  TRY_DO(state.allow_string(text.size() * 5));
  return state.string(escape_html(text), true);
}

Result<Value> indent(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("indent", arguments, {"width", "first", "blank"}, 0));
  if (input.is_undefined()) return undefined_error(input);
  if (!input.is_string()) return wrong("indent: '{}' is not a string", type_name(input));
  std::string indention;
  if (bound.given(0) && bound[0]->is_string()) {
    indention = bound[0]->view();
  } else {
    TRY(const std::int64_t width, bound.integer(0, 4));
    TRY_DO(state.allow_string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0))));
    indention.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  }
  const bool first = bound.flag(1, false), blank = bound.flag(2, false);
  const std::string text = std::string(input.view()) + "\n";
  const auto lines = split_lines(text, false);
  TRY_DO(state.charge_bytes(text.size() * 8));
  TRY_DO(state.allow_string(text.size() + lines.size() * indention.size()));
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    const bool indented = i == 0 ? first : blank || !lines[i].empty();
    if (indented) out += indention;
    out += lines[i];
  }
  return state.string(std::move(out), input.as_text().markup);
}

Result<Value> center(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("center", arguments, {"width"}, 0));
  TRY(const std::int64_t width, bound.integer(0, 80));
  TRY(const Value text, soft_text(state, input));
  const std::int64_t missing = width - text.as_text().characters;
  if (missing <= 0) return text;
  TRY_DO(state.allow_string(static_cast<std::size_t>(missing)));
  const std::int64_t left = missing / 2 + (missing & width & 1);
  return state.string(std::string(static_cast<std::size_t>(left), ' ') + std::string(text.view()) +
                          std::string(static_cast<std::size_t>(missing - left), ' '),
                      text.as_text().markup);
}

Result<Value> truncate(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound,
      Bound::bind("truncate", arguments, {"length", "killwords", "end", "leeway"}, 0));
  if (!input.is_string()) return wrong("truncate: '{}' is not a string", type_name(input));
  TRY(const std::int64_t length, bound.integer(0, 255));
  TRY(const std::string_view end, bound.text(2, "..."));
  std::int64_t leeway = 5;
  if (bound.says(3)) {
    TRY(leeway, bound.integer(3, 5));
  }
  const std::int64_t end_length = character_count(end);
  if (length < end_length) return wrong("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) return wrong("expected leeway >= 0, got {}", leeway);
  const std::string_view text = input.view();
  if (input.as_text().characters <= length + leeway) return input;
  std::string_view kept = text.substr(0, byte_of(text, length - end_length));
  if (!bound.flag(1, false)) kept = rsplit(kept, " ", 1)[0];
  return state.string(std::string(kept) + std::string(end), input.as_text().markup);
}

Result<Value> word_count(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("wordcount", arguments, {}, 0));
  TRY(const std::string text, to_str(state, input));
  TRY_DO(state.charge_bytes(text.size() * 8));
  Integer words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    std::string character;
    append_utf8(character, code);
    const bool word = code == '_' || has_trait(character, Trait::kAlnum);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::integer(words);
}

Result<Value> format(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Value text, soft_text(state, input));
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return wrong("can't handle positional and keyword arguments at the same time");
  }
  if (arguments.named.empty()) {
    return percent_format(state, text.as_text(), state.tuple(arguments.positional));
  }
  Dict* values = state.make<Dict>();
  for (auto& [name, value] : arguments.named) {
    TRY_DO(values->set(state, state.string(name), value));
  }
  return percent_format(state, text.as_text(), Value::object(values));
}

// Percent-encodes everything but letters, digits, _.-~ and what is in `safe`.
std::string quote_url(std::string_view text, std::string_view safe) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-~").find(c) != std::string_view::npos ||
                       safe.find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Result<Value> url_encode(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("urlencode", arguments, {}, 0));
  if (input.is_string() || !(input.is_undefined() || Cursor::over(input))) {
    TRY(const std::string text, to_str(state, input));
    TRY_DO(state.allow_string(text.size() * 3));
    return state.string(quote_url(text, "/"));
  }
  Value pairs = input;
  if (input.is(Kind::kDict)) {
    pairs = Value::object(state.make<DictView>(&input.as<Dict>(), DictView::Part::kItems));
  }
  TRY(Cursor cursor, Cursor::over(pairs));
  std::string out;
  while (true) {
    TRY(const std::optional<Value> pair, cursor.next(state));
    if (!pair) return state.string(std::move(out));
    TRY(const std::vector<Value> parts, elements(state, *pair));
    if (parts.size() != 2) return wrong("urlencode: expected pairs");
    if (!out.empty()) out += '&';
    for (std::size_t i = 0; i < 2; ++i) {
      TRY(const std::string part, to_str(state, parts[i]));
      TRY_DO(state.allow_string(out.size() + part.size() * 3));
      out += replace(quote_url(part, ""), "%20", "+", -1);
      if (i == 0) out += '=';
    }
  }
}

// Removes what stands between `open` and `close`, both included.
std::string without(std::string_view text, std::string_view open, std::string_view close) {
  std::string out;
  while (true) {
    const std::size_t begin = text.find(open);
    const std::size_t end = begin == std::string_view::npos ? begin : text.find(close, begin);
    if (end == std::string_view::npos) return out.append(text);
    out += text.substr(0, begin);
    text.remove_prefix(end + close.size());
  }
}

Result<Value> strip_tags(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("striptags", arguments, {}, 0));
  TRY(const std::string text, to_str(state, input));
  TRY_DO(state.charge_bytes(text.size() * 16));
  const std::string bare = without(without(text, "<!--", "-->"), "<", ">");
  std::string out;
  for (const std::string_view word : split_space(bare, -1)) {
    if (!out.empty()) out += ' ';
    out += word;
  }
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"},  {"&gt;", ">"},        {"&quot;", "\""}, {"&#34;", "\""},
      {"&#39;", "'"}, {"&nbsp;", "\u00A0"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities) out = replace(out, entity, character, -1);
  return state.string(std::move(out));
}

Result<Value> to_json_text(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound,
      Bound::bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.says(1)) {
    style.item_separator = ",";
    if (bound[1]->is_string()) {
      style.indent = bound[1]->view();
    } else {
      TRY(const std::int64_t width, bound.integer(1, 0));
      style.indent = std::string(
          static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, kMaxIndent + 1)), ' ');
    }
  }
  if (bound.says(2)) {
    TRY(const std::vector<Value> separators, elements(state, *bound[2]));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      return wrong("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].view();
    style.key_separator = separators[1].view();
    if (style.item_separator.size() + style.key_separator.size() > kMaxIndent) {
      return wrong("tojson: separators are over the limit of {} bytes", kMaxIndent);
    }
  }
  TRY(std::string text, to_json(state, input, style));
  return state.string(std::move(text));
}

Result<Value> join(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("join", arguments, {"d", "attribute"}, 0));
  TRY(const std::string separator, to_str(state, bound.value(0, state.string(""))));
  TRY(Cursor cursor, Cursor::over(input));
  std::string out;
  for (bool first = true;; first = false) {
    TRY(std::optional<Value> item, cursor.next(state));
    if (!item) return state.string(std::move(out));
    if (bound.says(1)) {
      TRY(item, get_path(state, *std::move(item), *bound[1]));
    }
    if (!first) out += separator;
    TRY_DO(append_str(state, out, *item));
    TRY_DO(state.charge_bytes(separator.size()));
    if (out.size() > state.limits().max_string_bytes) TRY_DO(state.allow_string(out.size()));
  }
}

constexpr Filter kTextFilters[] = {
    {"capitalize", mapped<capitalize>},
    {"center", center},
    {"e", escape<false>},
    {"escape", escape<false>},
    {"forceescape", escape<true>},
    {"format", format},
    {"indent", indent},
    {"join", join},
    {"lower", mapped<lower>},
    {"replace", replace_text},
    {"safe", mark_safe},
    {"string", as_string},
    {"striptags", strip_tags},
    {"title", mapped<title_words>},
    {"tojson", to_json_text},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", mapped<upper>},
    {"urlencode", url_encode},
    {"wordcount", word_count},
};

}  // namespace

std::span<const Filter> text_filters() { return kTextFilters; }

}  // namespace saccade::jinja
