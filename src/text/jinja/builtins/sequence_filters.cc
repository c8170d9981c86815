// Filters that look at or rearrange a whole sequence (jinja_filters.h).

#include "text/jinja/arguments.h"
#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/sort.h"
#include "text/jinja/operators.h"
#include "text/jinja/wrong.h"
#include "text/unicode/python_text.h"

namespace saccade::jinja {
namespace {

Value no_item(std::string_view what) {
  return Value::undefined({Absence::Reason::kHint, std::string(what), {}});
}

// What an item is sorted and grouped by: text without its case, unless asked otherwise.
Result<Value> fold_case(RenderState& state, Value key, bool case_sensitive) {
  if (case_sensitive || !key.is_string()) return key;
  TRY_DO(state.charge_bytes(key.view().size() * 8));
  return state.string(lower(key.view()));
}

Result<std::vector<Value>> keys_of(RenderState& state, const std::vector<Value>& items,
                                   const Value& attribute, bool case_sensitive,
                                   const Value& fallback) {
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (const Value& item : items) {
    TRY(Value key, get_path(state, item, attribute));
    if (key.is_undefined() && !fallback.is_none()) key = fallback;
    TRY(key, fold_case(state, std::move(key), case_sensitive));
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<Value> default_value(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("default", arguments, {"default_value", "boolean"}, 0));
  const bool replace = input.is_undefined() || (bound.flag(1, false) && !truth(input));
  return replace ? bound.value(0, state.string("")) : input;
}

Result<Value> count(RenderState&, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("length", arguments, {}, 0));
  const auto counted = length(input);
  if (!counted) return wrong("object of type '{}' has no len()", type_name(input));
  return Value::integer(*counted);
}

Result<Value> list(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("list", arguments, {}, 0));
  TRY(std::vector<Value> items, elements(state, input));
  return state.list(std::move(items));
}

Result<Value> first(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("first", arguments, {}, 0));
  TRY(Cursor cursor, Cursor::over(input));
  TRY(std::optional<Value> item, cursor.next(state));
  return item ? *std::move(item) : no_item("No first item, sequence was empty.");
}

Result<Value> last(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("last", arguments, {}, 0));
  if (input.is(Kind::kIterator)) return wrong("'{}' object is not reversible", type_name(input));
  if (input.is_string() || input.is_sequence() || input.is(Kind::kRange)) {
    TRY(Value item, get_item(state, input, Value::integer(-1)));
    return item.is_undefined() && *length(input) == 0 ? no_item("No last item, sequence was empty.")
                                                      : item;
  }
  TRY(std::vector<Value> items, elements(state, input));
  return items.empty() ? no_item("No last item, sequence was empty.") : items.back();
}

Result<Value> dict_sort(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound,
      Bound::bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0));
  TRY(const std::string_view by, bound.text(1, "key"));
  if (by != "key" && by != "value") {
    return wrong("You can only sort by either \"key\" or \"value\"");
  }
  if (input.is_undefined()) return undefined_error(input);
  if (!input.is(Kind::kDict)) {
    return wrong("'{}' object has no attribute 'items'", type_name(input));
  }
  std::vector<Value> items, keys;
  for (const auto& entry : input.as<Dict>().entries) {
    TRY_DO(state.charge());
    items.push_back(state.tuple({entry.key, entry.value}));
    TRY(Value key, fold_case(state, by == "key" ? entry.key : entry.value, bound.flag(0, false)));
    keys.push_back(std::move(key));
  }
  TRY_DO(stable_sort(state, items, std::move(keys), bound.flag(2, false)));
  return state.list(std::move(items));
}

Result<Value> sort(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound,
      Bound::bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0));
  TRY(std::vector<Value> items, elements(state, input));
  const Value attribute = bound.value(2, Value());
  // One key, or several after commas: an item's key is the list of them, and lists are compared by
  // their first elements that differ.
  std::vector<Value> paths = {attribute};
  if (attribute.is_string()) {
    paths.clear();
    for (const std::string_view path : split(attribute.view(), ",", -1)) {
      paths.push_back(state.string(std::string(path)));
    }
  }
  std::vector<std::vector<Value>> key_lists(items.size());
  for (const Value& path : paths) {
    TRY(const std::vector<Value> column,
        keys_of(state, items, path, bound.flag(1, false), Value()));
    for (std::size_t i = 0; i < items.size(); ++i) key_lists[i].push_back(column[i]);
  }
  std::vector<Value> keys;
  for (auto& list : key_lists) keys.push_back(state.list(std::move(list)));
  TRY_DO(stable_sort(state, items, std::move(keys), bound.flag(0, false)));
  return state.list(std::move(items));
}

template <bool largest>
Result<Value> extreme(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("min", arguments, {"case_sensitive", "attribute"}, 0));
  TRY(const std::vector<Value> items, elements(state, input));
  if (items.empty()) return no_item("No aggregated item, sequence was empty.");
  TRY(const std::vector<Value> keys,
      keys_of(state, items, bound.value(1, Value()), bound.flag(0, false), Value()));
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    TRY(const int order, compare(state, keys[i], keys[best], largest ? ">" : "<"));
    if (largest ? order > 0 : order < 0) best = i;
  }
  return items[best];
}

Result<Value> group_by(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound,
      Bound::bind("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1));
  const bool case_sensitive = bound.flag(2, false);
  const Value fallback = bound.value(1, Value());
  TRY(std::vector<Value> items, elements(state, input));
  TRY(const std::vector<Value> unsorted,
      keys_of(state, items, *bound[0], case_sensitive, fallback));
  TRY_DO(stable_sort(state, items, unsorted, false));
  TRY(const std::vector<Value> folded, keys_of(state, items, *bound[0], case_sensitive, fallback));
  TRY(const std::vector<Value> shown, keys_of(state, items, *bound[0], true, fallback));
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < items.size();) {
    std::size_t end = begin + 1;
    for (; end < items.size(); ++end) {
      TRY(const bool same, equals(state, folded[begin], folded[end]));
      if (!same) break;
    }
    std::vector<Value> members(items.begin() + static_cast<std::ptrdiff_t>(begin),
                               items.begin() + static_cast<std::ptrdiff_t>(end));
    const Value group = state.tuple({shown[begin], state.list(std::move(members))});
    group.as<Sequence>().is_group = true;
    groups.push_back(group);
    begin = end;
  }
  return state.list(std::move(groups));
}

Result<Value> attribute(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("attr", arguments, {"name"}, 1));
  TRY(const std::string_view name, bound.text(0));
  // Unlike a dot, it does not look among a dict's items.
  if (input.is(Kind::kDict)) {
    const Value empty = Value::object(state.make<Dict>());
    TRY(const Value found, get_attribute(state, empty, name));
    if (found.is_undefined()) return found;
  }
  return get_attribute(state, input, name);
}

constexpr Filter kSequenceFilters[] = {
    {"attr", attribute},     {"count", count}, {"d", default_value},   {"default", default_value},
    {"dictsort", dict_sort}, {"first", first}, {"groupby", group_by},  {"last", last},
    {"length", count},       {"list", list},   {"max", extreme<true>}, {"min", extreme<false>},
    {"sort", sort},
};

}  // namespace

std::span<const Filter> sequence_filters() { return kSequenceFilters; }

}  // namespace saccade::jinja
