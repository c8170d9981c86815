#include "grammar/schema/schema_numbers.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "grammar/schema/number_range.h"
#include "grammar/schema/schema_error.h"
#include "grammar/schema/schema_multiples.h"

namespace saccade::grammar {
namespace {

using json::object;
using json::value;

struct Limits {
  std::optional<double> min;
  bool above = false;  // min itself is not allowed
  std::optional<double> max;
  bool below = false;
};

Result<Limits> limits_of(const object& keywords, const std::string& path) {
  Limits limits;
  for (const std::string_view name : kNumberKeywords) {
    const value* given = json::find(keywords, name);
    if (!given || name == "multipleOf") continue;
    const bool lower = name.ends_with("inimum");
    const bool excludes = name.starts_with("exclusive");
    if (excludes && given->is_bool()) {  // as draft 4 writes it; `minimum` was read before
      if (lower) limits.above = given->get_bool();
      if (!lower) limits.below = given->get_bool();
      continue;
    }
    if (!given->is_number()) {
      return refuse_schema(ErrorCode::kInvalid, path, "'{}' must be a number", name);
    }
    const double bound = given->to_number<double>();
    if (lower && (!limits.min || bound > *limits.min || (bound == *limits.min && excludes))) {
      limits.min = bound;
      limits.above = excludes;
    }
    if (!lower && (!limits.max || bound < *limits.max || (bound == *limits.max && excludes))) {
      limits.max = bound;
      limits.below = excludes;
    }
  }
  return limits;
}

}  // namespace

Result<NodeId> schema_number(Grammar& grammar, JsonValues& values, const json::object& keywords,
                             std::string_view type, const std::string& path) {
  const value* format = json::find(keywords, "format");
  if (format && !keywords.contains("type")) {
    return refuse_schema(ErrorCode::kUnsupported, path, "'format' of a number without 'type'");
  }
  TRY(const Limits limits, limits_of(keywords, path));
  const auto bound_of = [](std::optional<double> at,
                           bool excluded) -> Result<std::optional<Bound>> {
    if (!at) return std::optional<Bound>();
    TRY(Decimal decimal, decimal_of(*at));
    return std::optional<Bound>(Bound{std::move(decimal), excluded});
  };
  const auto min = bound_of(limits.min, limits.above);
  if (!min) return refuse_schema_at(path, min.error());
  const auto max = bound_of(limits.max, limits.below);
  if (!max) return refuse_schema_at(path, max.error());
  if (const value* step = json::find(keywords, "multipleOf")) {
    if (!step->is_number() || !(step->to_number<double>() > 0))
      return refuse_schema(ErrorCode::kInvalid, path, "'multipleOf' must be a number above 0");
    const auto of = decimal_of(step->to_number<double>());
    if (!of) return refuse_schema_at(path, of.error());
    const auto all = multiples(grammar, {*of, type == "integer", *min, *max});
    if (!all) return refuse_schema_at(path, all.error());
    return *all;
  }
  if (!limits.min && !limits.max) return type == "integer" ? values.integer() : values.number();
  if (type == "integer") {
    constexpr double kMost = 9.0e18;  // within 64 bits
    if (std::abs(limits.min.value_or(0)) > kMost || std::abs(limits.max.value_or(0)) > kMost) {
      return refuse_schema(ErrorCode::kUnsupported, path, "an integer's bound beyond {}", kMost);
    }
    const auto whole = [&](std::optional<double> bound, bool excluded,
                           bool lower) -> std::optional<std::int64_t> {
      if (!bound) return std::nullopt;
      auto nearest = static_cast<std::int64_t>(lower ? std::ceil(*bound) : std::floor(*bound));
      if (excluded && static_cast<double>(nearest) == *bound) nearest += lower ? 1 : -1;
      return nearest;
    };
    const auto range = integer_range(grammar, whole(limits.min, limits.above, true),
                                     whole(limits.max, limits.below, false));
    if (!range) return refuse_schema_at(path, range.error());
    return *range;
  }
  const auto range = number_range(grammar, *min, *max);
  if (!range) return refuse_schema_at(path, range.error());
  return *range;
}

}  // namespace saccade::grammar
