// Attributes, subscripts and slices (jinja_operators.h).
#include <algorithm>

#include "text/jinja/builtins/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/wrong.h"
#include "text/unicode/python_text.h"
#include "text/unicode/unicode.h"

namespace saccade::jinja {
namespace {

Value missing_attribute(const Value& object, std::string_view name) {
  return Value::undefined({Absence::Reason::kAttribute, std::string(name), owner_name(object)});
}

Value unsafe(const Value& object, std::string_view name) {
  return Value::undefined(
      {Absence::Reason::kUnsafe, std::string(name), std::string(type_name(object))});
}

// What getattr() finds, without items.
Result<std::optional<Value>> own_attribute(RenderState& state, const Value& object,
                                           std::string_view name) {
  if (name.starts_with("__") && name.ends_with("__")) return unsafe(object, name);
  if (const Method* method = find_method(object, name)) {
    return Value::object(state.make<BoundMethod>(object, method));
  }
  if (is_mutator(object, name)) return unsafe(object, name);
  if (object.is_object()) return object.as_object()->attribute(state, name);
  return std::nullopt;
}

// object[key] where Python has it; empty where it raises a TypeError or a LookupError.
Result<std::optional<Value>> own_item(RenderState& state, const Value& object, const Value& key) {
  if (object.is(Kind::kDict)) {
    if (!key.is_string() && (key.is(Kind::kList) || key.is(Kind::kDict))) return std::nullopt;
    auto found = object.as<Dict>().find(state, key);
    if (!found) return tl::unexpected(std::move(found).error());
    if (*found == nullptr) return std::nullopt;
    return **found;
  }
  const bool indexed = object.is_string() || object.is_sequence() || object.is(Kind::kRange);
  if (!indexed || !key.is_integral()) return std::nullopt;
  const std::int64_t count = *length(object);
  Integer index = key.as_integer();
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  const auto at = static_cast<std::int64_t>(index);
  if (object.is_sequence()) return object.as<Sequence>().items[static_cast<std::size_t>(at)];
  if (object.is(Kind::kRange)) return object.as<Range>().at(at);
  const Text& text = object.as_text();
  if (text.is_ascii()) {
    return state.string(std::string(1, text.bytes[static_cast<std::size_t>(at)]), text.markup);
  }
  TRY_DO(state.charge_bytes(text.bytes.size()));
  const std::size_t begin = byte_of(text.bytes, at);
  return state.string(text.bytes.substr(begin, character_bytes(text.bytes[begin])), text.markup);
}

// slice(start, stop, step).indices(count)
struct Indices {
  std::int64_t start = 0, stop = 0, step = 1, count = 0;
};

Result<Indices> slice_indices(std::int64_t count, const Value& start, const Value& stop,
                              const Value& step) {
  for (const Value* part : {&start, &stop, &step}) {
    if (part->is_none() || part->is_integral()) continue;
    return wrong("slice indices must be integers or None or have an __index__ method");
  }
  Indices indices;
  const auto clamped = [](Integer value) {
    return static_cast<std::int64_t>(
        std::clamp<Integer>(value, -(Integer{1} << 40), Integer{1} << 40));
  };
  if (!step.is_none()) indices.step = clamped(step.as_integer());
  if (indices.step == 0) return wrong("slice step cannot be zero");
  const bool backward = indices.step < 0;
  const auto bound = [&](const Value& value, std::int64_t absent) {
    if (value.is_none()) return absent;
    std::int64_t at = clamped(value.as_integer());
    if (at < 0) at += count;
    return std::clamp<std::int64_t>(at, backward ? -1 : 0, backward ? count - 1 : count);
  };
  indices.start = bound(start, backward ? count - 1 : 0);
  indices.stop = bound(stop, backward ? -1 : count);
  const std::int64_t span = backward ? indices.start - indices.stop : indices.stop - indices.start;
  const std::int64_t stride = backward ? -indices.step : indices.step;
  indices.count = span > 0 ? (span + stride - 1) / stride : 0;
  return indices;
}

Result<Value> slice_text(RenderState& state, const Text& text, const Indices& indices) {
  TRY_DO(state.charge_bytes(text.bytes.size()));
  const std::string_view bytes = text.bytes;
  if (indices.step == 1) {
    const std::size_t begin =
        text.is_ascii() ? static_cast<std::size_t>(indices.start) : byte_of(bytes, indices.start);
    const std::string_view rest = bytes.substr(std::min(begin, bytes.size()));
    const std::size_t size =
        text.is_ascii() ? static_cast<std::size_t>(indices.count) : byte_of(rest, indices.count);
    return state.string(std::string(rest.substr(0, size)), text.markup);
  }
  TRY_DO(state.charge(text.characters));
  std::vector<std::size_t> starts;
  starts.reserve(static_cast<std::size_t>(text.characters));
  for (std::size_t at = 0; at < bytes.size(); at += character_bytes(bytes[at]))
    starts.push_back(at);
  std::string out;
  for (std::int64_t i = 0; i < indices.count; ++i) {
    const std::size_t at = starts[static_cast<std::size_t>(indices.start + i * indices.step)];
    out += bytes.substr(at, character_bytes(bytes[at]));
  }
  return state.string(std::move(out), text.markup);
}

}  // namespace

Result<Value> get_attribute(RenderState& state, const Value& object, std::string_view name) {
  if (object.is_undefined()) return undefined_error(object);
  TRY(std::optional<Value> found, own_attribute(state, object, name));
  if (found) return *std::move(found);
  if (object.is(Kind::kDict)) {
    if (const Value* item = object.as<Dict>().find(name)) return *item;
  }
  return missing_attribute(object, name);
}

Result<Value> get_item(RenderState& state, const Value& object, const Value& key) {
  if (object.is_undefined()) return undefined_error(object);
  TRY(std::optional<Value> item, own_item(state, object, key));
  if (item) return *std::move(item);
  if (key.is_string()) {
    TRY(std::optional<Value> found, own_attribute(state, object, key.view()));
    if (found) return *std::move(found);
    return missing_attribute(object, key.view());
  }
  std::string shown;
  TRY_DO(append_repr(state, shown, key));
  return Value::undefined({Absence::Reason::kElement, std::move(shown), owner_name(object)});
}

Result<Value> get_slice(RenderState& state, const Value& object, const Value& start,
                        const Value& stop, const Value& step) {
  if (object.is_undefined()) return undefined_error(object);
  const bool sliceable = object.is_string() || object.is_sequence() || object.is(Kind::kRange);
  if (!sliceable) return wrong("'{}' object is not subscriptable with a slice", type_name(object));
  TRY(const Indices indices, slice_indices(*length(object), start, stop, step));
  if (object.is_string()) return slice_text(state, object.as_text(), indices);
  if (object.is(Kind::kRange)) {
    const Range& range = object.as<Range>();
    const Integer first = range.start + range.step * indices.start;
    // With one element or none the step means nothing, and would grow without bound.
    const Integer stride = indices.count > 1 ? range.step * indices.step : range.step;
    return Value::object(
        state.make<Range>(first, first + stride * indices.count, stride, indices.count));
  }
  TRY_DO(state.allow_elements(static_cast<std::size_t>(indices.count)));
  const auto& items = object.as<Sequence>().items;
  std::vector<Value> picked;
  picked.reserve(static_cast<std::size_t>(indices.count));
  for (std::int64_t i = 0; i < indices.count; ++i) {
    picked.push_back(items[static_cast<std::size_t>(indices.start + i * indices.step)]);
  }
  return object.is(Kind::kList) ? state.list(std::move(picked)) : state.tuple(std::move(picked));
}

Result<Value> get_path(RenderState& state, Value object, const Value& path) {
  if (path.is_none()) return object;
  if (!path.is_string()) return get_item(state, object, path);
  for (const std::string_view part : split(path.view(), ".", -1)) {
    TRY_DO(state.charge());
    const bool number =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const Value key =
        number ? Value::integer(std::stoll(std::string(part))) : state.string(std::string(part));
    TRY(object, get_item(state, object, key));
  }
  return object;
}

}  // namespace saccade::jinja
