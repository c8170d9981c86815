#include "grammar/schema/schema_strings.h"

#include <cmath>

#include "grammar/frontends/regex_parser.h"
#include "grammar/schema/schema_error.h"
#include "grammar/schema/string_formats.h"

namespace saccade::grammar {

using json::object;
using json::value;

Result<NodeId> schema_string(Grammar& grammar, JsonValues& values, const object& keywords,
                             const std::string& path) {
  const value* pattern = json::find(keywords, "pattern");
  const value* format = json::find(keywords, "format");
  TRY(const auto min, schema_count(keywords, "minLength", path));
  TRY(const auto max, schema_count(keywords, "maxLength", path));
  const bool bounded = min.value_or(0) > 0 || max;
  // A format of no standard ("binary", "password") is a remark, as the specification has it.
  const bool formatted =
      format && (!format->is_string() || is_standard_format(format->get_string()));
  if ((pattern != nullptr) + formatted + bounded > 1) {
    return refuse_schema(ErrorCode::kUnsupported, path,
                         "more than one of 'pattern', 'format' and 'minLength' with 'maxLength'");
  }
  const NodeId quote = grammar.text("\"");
  if (pattern || formatted) {
    const value& given = pattern ? *pattern : *format;
    if (!given.is_string()) {
      return refuse_schema(ErrorCode::kInvalid, path, "'{}' must be a string",
                           pattern ? "pattern" : "format");
    }
    std::string regex(given.get_string());
    if (!pattern) {
      const auto known = format_pattern(regex);
      if (!known) {
        return refuse_schema(ErrorCode::kUnsupported, path, "the format '{}'; known are {}", regex,
                             known_formats());
      }
      regex = *known;
    }
    const auto inside =
        parse_regex(grammar, regex, {.search = pattern != nullptr, .json_string = true});
    if (!inside) return refuse_schema_at(path + (pattern ? "/pattern" : "/format"), inside.error());
    return grammar.sequence({quote, *inside, quote});
  }
  if (!bounded) return values.string();
  if (max && *max < min.value_or(0)) {
    return refuse_schema(ErrorCode::kInvalid, path, "'maxLength' {} is below 'minLength' {}", *max,
                         *min);
  }
  return grammar.sequence(
      {quote, grammar.repeat(values.character(), min.value_or(0), max.value_or(kUnbounded)),
       quote});
}

Result<std::optional<std::uint32_t>> schema_count(const object& keywords, std::string_view name,
                                                  const std::string& path) {
  const value* given = json::find(keywords, name);
  if (!given) return std::optional<std::uint32_t>();
  double count = -1;
  if (given->is_int64()) count = static_cast<double>(given->get_int64());
  if (given->is_uint64()) count = static_cast<double>(given->get_uint64());
  if (given->is_double()) count = given->get_double();
  if (count < 0 || count != std::floor(count)) {
    return refuse_schema(ErrorCode::kInvalid, path, "'{}' must be a whole number, 0 or more", name);
  }
  if (count >= kUnbounded) {
    return refuse_schema(ErrorCode::kTooLarge, path, "'{}' is over {}", name, kUnbounded - 1);
  }
  return std::optional<std::uint32_t>(static_cast<std::uint32_t>(count));
}

}  // namespace saccade::grammar
