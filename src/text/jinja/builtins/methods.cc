#include "text/jinja/builtins/methods.h"

#include <algorithm>
#include <span>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins/text_methods.h"
#include "text/jinja/print.h"
#include "text/jinja/wrong.h"

namespace saccade::jinja {
namespace {

Result<Value> sequence_count(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("count", arguments, {""}, 1));
  TRY(Cursor cursor, Cursor::over(self));
  Integer count = 0;
  while (true) {
    TRY(const std::optional<Value> item, cursor.next(state));
    if (!item) return Value::integer(count);
    TRY(const bool same, equals(state, *item, *bound[0]));
    count += same ? 1 : 0;
  }
}

Result<Value> sequence_index(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("index", arguments, {"", "", ""}, 1));
  TRY(std::int64_t start, bound.integer(1, 0));
  TRY(std::int64_t stop, bound.integer(2, *length(self)));
  if (start < 0) start = std::max<std::int64_t>(start + *length(self), 0);
  if (stop < 0) stop += *length(self);
  TRY(Cursor cursor, Cursor::over(self));
  for (std::int64_t at = 0; at < stop; ++at) {
    TRY(const std::optional<Value> item, cursor.next(state));
    if (!item) break;
    TRY(const bool same, equals(state, *item, *bound[0]));
    if (same && at >= start) return Value::integer(at);
  }
  std::string shown;
  TRY_DO(append_repr(state, shown, *bound[0]));
  return wrong("{} is not in {}", shown, type_name(self));
}

Result<Value> list_copy(RenderState& state, const Value& self, Arguments& arguments) {
  TRY_DO(Bound::bind("copy", arguments, {}, 0));
  TRY(std::vector<Value> items, elements(state, self));
  return state.list(std::move(items));
}

Result<Value> dict_get(RenderState& state, const Value& self, Arguments& arguments) {
  TRY(const Bound bound, Bound::bind("get", arguments, {"", ""}, 1));
  TRY(const Value* found, self.as<Dict>().find(state, *bound[0]));
  return found ? *found : bound.value(1, Value());
}

template <DictView::Part part>
Result<Value> dict_view(RenderState& state, const Value& self, Arguments& arguments) {
  TRY_DO(Bound::bind("items", arguments, {}, 0));
  return Value::object(state.make<DictView>(&self.as<Dict>(), part));
}

Result<Value> dict_copy(RenderState& state, const Value& self, Arguments& arguments) {
  TRY_DO(Bound::bind("copy", arguments, {}, 0));
  const auto& entries = self.as<Dict>().entries;
  TRY_DO(state.allow_elements(entries.size()));
  Dict* copy = state.make<Dict>();
  for (const auto& entry : entries) TRY_DO(copy->set(state, entry.key, entry.value));
  return Value::object(copy);
}

constexpr Method kListMethods[] = {
    {"copy", list_copy}, {"count", sequence_count}, {"index", sequence_index}};
constexpr Method kTupleMethods[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr Method kDictMethods[] = {{"copy", dict_copy},
                                   {"get", dict_get},
                                   {"items", dict_view<DictView::Part::kItems>},
                                   {"keys", dict_view<DictView::Part::kKeys>},
                                   {"values", dict_view<DictView::Part::kValues>}};

constexpr std::string_view kListMutators[] = {"append", "clear",  "extend",  "insert",
                                              "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};

std::span<const Method> methods_of(const Value& self) {
  switch (self.kind()) {
    case Kind::kString:
      return text_methods();
    case Kind::kList:
      return kListMethods;
    case Kind::kTuple:
    case Kind::kRange:
      return kTupleMethods;
    case Kind::kDict:
      return kDictMethods;
    default:
      return {};
  }
}

}  // namespace

const Method* find_method(const Value& self, std::string_view name) {
  const auto methods = methods_of(self);
  const auto it = std::find_if(methods.begin(), methods.end(),
                               [&](const Method& method) { return method.name == name; });
  return it == methods.end() ? nullptr : &*it;
}

bool is_mutator(const Value& self, std::string_view name) {
  const auto has = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return (self.is(Kind::kList) && has(kListMutators)) ||
         (self.is(Kind::kDict) && has(kDictMutators));
}

std::string BoundMethod::repr() const {
  return fmt::format("<built-in method {} of {} object>", method->name, type_name(self));
}

}  // namespace saccade::jinja
