// Filters whose result is read once, item by item, as Python's generators are (jinja_filters.h).
#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/tests.h"
#include "text/jinja/operators.h"
#include "text/jinja/wrong.h"
#include "text/unicode/python_text.h"

namespace saccade::jinja {
namespace {

// What is computed already, handed out once.
class Stored final : public Iterator {
 public:
  Stored(std::string_view type, std::vector<Value> items)
      : Iterator(type), items_(std::move(items)) {}
  const std::vector<Value>& items() const { return items_; }
  Result<std::optional<Value>> next(RenderState& state) override {
    TRY_DO(state.charge());
    if (at_ >= items_.size()) return std::nullopt;
    return items_[at_++];
  }

 private:
  const std::vector<Value> items_;
  std::size_t at_ = 0;
};

Value stored(RenderState& state, std::string_view type, std::vector<Value> items) {
  state.count_bytes(items.size() * sizeof(Value));
  auto* made = state.make<Stored>(type, std::move(items));
  for (const Value& item : made->items()) state.nest(*made, item);
  return Value::object(made);
}

// map: each item's attribute, or each item through a filter.
class Mapped final : public Iterator {
 public:
  Mapped(Cursor source, Arguments arguments)
      : Iterator("generator"), source_(std::move(source)), arguments_(std::move(arguments)) {}

  Result<std::optional<Value>> next(RenderState& state) override {
    TRY(std::optional<Value> item, source_.next(state));
    if (!item) return std::nullopt;
    if (arguments_.positional.empty()) return by_attribute(state, *std::move(item));
    const Value& name = arguments_.positional[0];
    const Filter* filter = name.is_string() ? find_filter(name.view()) : nullptr;
    if (!filter) return wrong("No filter named '{}'.", name.is_string() ? name.view() : "?");
    Arguments rest{{arguments_.positional.begin() + 1, arguments_.positional.end()},
                   arguments_.named};
    TRY(Value mapped, filter->apply(state, *item, rest));
    return mapped;
  }

 private:
  Result<std::optional<Value>> by_attribute(RenderState& state, Value item) {
    TRY(const Bound bound, Bound::bind("map", arguments_, {"attribute", "default"}, 0));
    if (!bound.given(0)) return wrong("map requires a filter argument");
    TRY(Value found, get_path(state, std::move(item), *bound[0]));
    if (found.is_undefined() && bound.says(1)) found = *bound[1];
    return found;
  }

  Cursor source_;
  Arguments arguments_;
};

// select, reject and their attr forms: items that pass (or fail) a test.
class Selected final : public Iterator {
 public:
  Selected(Cursor source, Arguments arguments, bool wanted, bool by_attribute)
      : Iterator("generator"),
        source_(std::move(source)),
        arguments_(std::move(arguments)),
        wanted_(wanted),
        by_attribute_(by_attribute) {}

  Result<std::optional<Value>> next(RenderState& state) override {
    while (true) {
      TRY(std::optional<Value> item, source_.next(state));
      if (!item) return std::nullopt;
      TRY(const bool passes, test(state, *item));
      if (passes == wanted_) return item;
    }
  }

 private:
  Result<bool> test(RenderState& state, const Value& item) {
    const auto& given = arguments_.positional;
    Value subject = item;
    if (by_attribute_) {
      if (given.empty()) return wrong("Missing parameter for attribute name");
      TRY(subject, get_path(state, item, given[0]));
    }
    const std::size_t at = by_attribute_ ? 1 : 0;
    if (given.size() <= at) return truth(subject);
    const Value& name = given[at];
    const Test* chosen = name.is_string() ? find_test(name.view()) : nullptr;
    if (!chosen) return wrong("No test named '{}'.", name.is_string() ? name.view() : "?");
    const Arguments rest{{given.begin() + static_cast<std::ptrdiff_t>(at) + 1, given.end()},
                         arguments_.named};
    return run_test(state, *chosen, subject, rest);
  }

  Cursor source_;
  Arguments arguments_;
  const bool wanted_;
  const bool by_attribute_;
};

// A generator starts by asking whether there is anything: what is empty is not even iterated.
Result<Cursor> source_of(RenderState& state, const Value& input) {
  return Cursor::over(truth(input) ? input : state.list({}));
}

Result<Value> map(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(Cursor source, source_of(state, input));
  auto* made = state.make<Mapped>(std::move(source), std::move(arguments));
  state.nest(*made, input);
  return Value::object(made);
}

template <bool wanted, bool by_attribute>
Result<Value> select(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(Cursor source, source_of(state, input));
  auto* made = state.make<Selected>(std::move(source), std::move(arguments), wanted, by_attribute);
  state.nest(*made, input);
  return Value::object(made);
}

Result<Value> unique(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("unique", arguments, {"case_sensitive", "attribute"}, 0));
  TRY(const std::vector<Value> items, elements(state, input));
  Dict* seen = state.make<Dict>();
  std::vector<Value> kept;
  for (const Value& item : items) {
    TRY(Value key, get_path(state, item, bound.value(1, Value())));
    if (key.is_string() && !bound.flag(0, false)) key = state.string(lower(key.view()));
    TRY(const Value* found, seen->find(state, key));
    if (found != nullptr) continue;
    TRY_DO(seen->set(state, key, Value()));
    kept.push_back(item);
  }
  return stored(state, "generator", std::move(kept));
}

Result<Value> items_of(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("items", arguments, {}, 0));
  if (!input.is_undefined() && !input.is(Kind::kDict)) {
    return wrong("Can only get item pairs from a mapping.");
  }
  std::vector<Value> pairs;
  if (input.is(Kind::kDict)) {
    for (const auto& entry : input.as<Dict>().entries) {
      TRY_DO(state.charge());
      pairs.push_back(state.tuple({entry.key, entry.value}));
    }
  }
  return stored(state, "generator", std::move(pairs));
}

Result<Value> reverse(RenderState& state, const Value& input, Arguments& arguments) {
  TRY_DO(Bound::bind("reverse", arguments, {}, 0));
  if (input.is_string()) {
    return get_slice(state, input, Value(), Value(), Value::integer(-1));
  }
  TRY(std::vector<Value> items, elements(state, input));
  std::reverse(items.begin(), items.end());
  if (input.is(Kind::kIterator)) return state.list(std::move(items));
  return stored(state, "list_reverseiterator", std::move(items));
}

Result<Value> batch(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("batch", arguments, {"linecount", "fill_with"}, 1));
  TRY(const std::int64_t size, bound.integer(0, 0));
  TRY(const std::vector<Value> items, elements(state, input));
  std::vector<Value> batches, current;
  for (const Value& item : items) {
    if (static_cast<std::int64_t>(current.size()) == size) {
      batches.push_back(state.list(std::exchange(current, {})));
    }
    current.push_back(item);
  }
  if (!current.empty()) {
    const std::int64_t missing = size - static_cast<std::int64_t>(current.size());
    if (bound.says(1) && missing > 0) {
      TRY_DO(state.allow_elements(static_cast<std::size_t>(missing)));
      current.insert(current.end(), static_cast<std::size_t>(missing), *bound[1]);
    }
    batches.push_back(state.list(std::move(current)));
  }
  return stored(state, "generator", std::move(batches));
}

Result<Value> slice(RenderState& state, const Value& input, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("slice", arguments, {"slices", "fill_with"}, 1));
  TRY(const std::int64_t slices, bound.integer(0, 0));
  TRY(const std::vector<Value> items, elements(state, input));
  if (slices == 0) return wrong("integer division or modulo by zero");
  std::vector<Value> columns;
  if (slices > 0) {
    TRY_DO(state.allow_elements(static_cast<std::size_t>(slices)));
    const auto count = static_cast<std::int64_t>(items.size());
    const std::int64_t each = count / slices, longer = count % slices;
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < slices; ++i) {
      const std::int64_t end = begin + each + (i < longer ? 1 : 0);
      std::vector<Value> column(items.begin() + begin, items.begin() + end);
      if (bound.says(1) && i >= longer) column.push_back(*bound[1]);
      columns.push_back(state.list(std::move(column)));
      begin = end;
    }
  }
  return stored(state, "generator", std::move(columns));
}

constexpr Filter kIteratorFilters[] = {
    {"batch", batch},
    {"items", items_of},
    {"map", map},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"reverse", reverse},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"slice", slice},
    {"unique", unique},
};

}  // namespace

std::span<const Filter> iterator_filters() { return kIteratorFilters; }

}  // namespace saccade::jinja
