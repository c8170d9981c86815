#include "text/jinja/value.h"

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <cmath>
#include <random>

#include "base/hash.h"
#include "text/jinja/state.h"
#include "text/unicode/unicode.h"

namespace saccade::jinja {
namespace {

constexpr std::size_t kIndexed = 8;  // a dict of up to this many entries is searched in order

// Of a string as a key. Seeded by chance, once a process: clients choose the keys, and must not be
// able to choose ones of one hash.
std::uint64_t hash_of(std::string_view key) {
  static const std::uint64_t seed =
      (std::uint64_t{std::random_device()()} << 32) | std::random_device()();
  return hash64(key, seed);
}

tl::unexpected<Error> not_ordered(const Value& a, const Value& b, std::string_view sign) {
  return fail(ErrorCode::kInvalid, "'{}' not supported between instances of '{}' and '{}'", sign,
              type_name(a), type_name(b));
}

int sign_of(bool less, bool greater) { return less ? -1 : greater ? 1 : 0; }

Result<int> compare_sequences(RenderState& state, const Sequence& a, const Sequence& b,
                              std::string_view sign) {
  const std::size_t both = std::min(a.items.size(), b.items.size());
  for (std::size_t i = 0; i < both; ++i) {
    TRY(const bool same, equals(state, a.items[i], b.items[i]));
    if (!same) return compare(state, a.items[i], b.items[i], sign);
  }
  return sign_of(a.items.size() < b.items.size(), a.items.size() > b.items.size());
}

Result<bool> equal_dicts(RenderState& state, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& entry : a.entries) {
    TRY(const Value* other, b.find(state, entry.key));
    if (other == nullptr) return false;
    TRY(const bool same, equals(state, entry.value, *other));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_objects(RenderState& state, const Value& a, const Value& b) {
  if (a.as_object() == b.as_object()) return true;
  if (a.kind() != b.kind()) return false;
  if (a.is_sequence()) {
    const auto& left = a.as<Sequence>().items;
    const auto& right = b.as<Sequence>().items;
    if (left.size() != right.size()) return false;
    for (std::size_t i = 0; i < left.size(); ++i) {
      TRY(const bool same, equals(state, left[i], right[i]));
      if (!same) return false;
    }
    return true;
  }
  if (a.is(Kind::kDict)) return equal_dicts(state, a.as<Dict>(), b.as<Dict>());
  if (a.is(Kind::kRange)) {
    const Range& left = a.as<Range>();
    const Range& right = b.as<Range>();
    if (left.length != right.length) return false;
    if (left.length == 0) return true;
    return left.start == right.start && (left.length == 1 || left.step == right.step);
  }
  return false;
}

}  // namespace

Text::Text(std::string text, bool is_markup, std::int64_t* live)
    : bytes(std::move(text)),
      characters(character_count(bytes)),
      markup(is_markup),
      live_bytes_(live) {
  if (live_bytes_) *live_bytes_ += static_cast<std::int64_t>(bytes.size() + sizeof(Text));
}

Text::~Text() {
  if (live_bytes_) *live_bytes_ -= static_cast<std::int64_t>(bytes.size() + sizeof(Text));
}

std::string Absence::message() const {
  switch (reason) {
    case Reason::kName:
      return fmt::format("'{}' is undefined", name);
    case Reason::kAttribute:
      return fmt::format("'{}' has no attribute '{}'", owner, name);
    case Reason::kElement:
      return fmt::format("{} has no element {}", owner, name);
    case Reason::kUnsafe:
      return fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, owner);
    case Reason::kHint:
      return name;
  }
  return name;
}

Kind Value::kind() const {
  static constexpr Kind kScalars[] = {Kind::kNone,  Kind::kBool,   Kind::kInt,
                                      Kind::kFloat, Kind::kString, Kind::kUndefined};
  if (const auto* object = std::get_if<Object*>(&held_)) return (*object)->kind;
  return kScalars[held_.index()];
}

Integer Value::as_integer() const {
  if (const bool* truth = std::get_if<bool>(&held_)) return *truth ? 1 : 0;
  return get<Integer>();
}

double Value::as_double() const {
  if (const double* real = std::get_if<double>(&held_)) return *real;
  return static_cast<double>(as_integer());
}

Result<std::optional<Value>> Object::attribute(RenderState&, std::string_view) {
  return std::nullopt;
}

Result<std::optional<Value>> Sequence::attribute(RenderState&, std::string_view name) {
  if (is_group && name == "grouper") return items[0];
  if (is_group && name == "list") return items[1];
  return std::nullopt;
}

Result<std::optional<Value>> Namespace::attribute(RenderState&, std::string_view name) {
  const Value* found = attributes.find(name);
  return found ? std::optional<Value>(*found) : std::nullopt;
}

Result<std::optional<Value>> Range::attribute(RenderState&, std::string_view name) {
  if (name == "start") return Value::integer(start);
  if (name == "stop") return Value::integer(stop);
  if (name == "step") return Value::integer(step);
  return std::nullopt;
}

template <typename Same>
Result<const Dict::Entry*> Dict::look_up(std::uint64_t hash, const Same& same) const {
  if (entries.size() <= kIndexed) {
    for (const Entry& entry : entries) {
      if (entry.hash != hash) continue;
      TRY(const bool found, same(entry.key));
      if (found) return &entry;
    }
    return nullptr;
  }
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    TRY(const bool found, same(entries[it->second].key));
    if (found) return &entries[it->second];
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto same = [&](const Value& other) -> Result<bool> {
    return other.is_string() && other.view() == key;
  };
  const Entry* entry = *look_up(hash_of(key), same);
  return entry ? &entry->value : nullptr;
}

Result<const Value*> Dict::find(RenderState& state, const Value& key) const {
  if (key.is_string()) return find(key.view());
  TRY(const std::uint64_t code, hash(state, key));
  TRY(const Entry* entry,
      look_up(code, [&](const Value& other) { return equals(state, key, other); }));
  return entry ? &entry->value : nullptr;
}

void Dict::insert(std::uint64_t hash, const Value& key, Value value) {
  entries.push_back({hash, key, std::move(value)});
  if (entries.size() <= kIndexed) return;
  const std::size_t first = entries.size() == kIndexed + 1 ? 0 : entries.size() - 1;
  for (std::size_t i = first; i < entries.size(); ++i) {
    index_.emplace(entries[i].hash, static_cast<std::uint32_t>(i));
  }
}

Result<void> Dict::set(RenderState& state, const Value& key, Value value) {
  state.nest(*this, key);
  state.nest(*this, value);
  TRY(const std::uint64_t code, hash(state, key));
  TRY(const Entry* entry,
      look_up(code, [&](const Value& other) { return equals(state, key, other); }));
  if (entry) {
    entries[static_cast<std::size_t>(entry - entries.data())].value = std::move(value);
    return {};
  }
  state.count_bytes(2 * sizeof(Entry));
  insert(code, key, std::move(value));
  return {};
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_integer() != 0;
    case Kind::kFloat:
      return value.as_double() != 0;
    default:
      break;
  }
  const auto count = length(value);
  return !count || *count != 0;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.as_text().markup ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kRange:
      return "range";
    case Kind::kDictView: {
      static constexpr std::string_view kNames[] = {"dict_keys", "dict_values", "dict_items"};
      return kNames[static_cast<int>(value.as<DictView>().part)];
    }
    case Kind::kIterator:
      return value.as<Iterator>().type_name;
    case Kind::kCallable:
      return "function";
    case Kind::kLoop:
      return "LoopContext";
  }
  return "object";
}

std::string owner_name(const Value& value) {
  if (value.is_none()) return "None";
  return fmt::format("{} object", type_name(value));
}

tl::unexpected<Error> undefined_error(const Value& value) {
  return fail(ErrorCode::kInvalid, "{}", value.absence().message());
}

Result<bool> equals(RenderState& state, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return a.view() == b.view();
  if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (!a.is_object() || !b.is_object()) return a.kind() == b.kind() && !a.is_string();
  TRY_DO(state.charge());
  return equal_objects(state, a, b);
}

Result<int> compare(RenderState& state, const Value& a, const Value& b, std::string_view sign) {
  TRY_DO(state.charge());
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (a.is_integral() && b.is_integral()) {
    return sign_of(a.as_integer() < b.as_integer(), a.as_integer() > b.as_integer());
  }
  if (a.is_number() && b.is_number()) {
    return sign_of(a.as_double() < b.as_double(), a.as_double() > b.as_double());
  }
  // Order of bytes is order of code points in UTF-8.
  if (a.is_string() && b.is_string()) return a.view().compare(b.view());
  if (a.is_sequence() && a.kind() == b.kind()) {
    return compare_sequences(state, a.as<Sequence>(), b.as<Sequence>(), sign);
  }
  return not_ordered(a, b, sign);
}

Result<std::uint64_t> hash(RenderState& state, const Value& value) {
  if (value.is_string()) return hash_of(value.view());
  TRY_DO(state.charge());
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return hash_combine(1, static_cast<std::uint64_t>(value.kind()));
    case Kind::kBool:
    case Kind::kInt: {
      const Integer number = value.as_integer();
      // An int and a float that are equal are one key.
      const double real = static_cast<double>(number);
      if (std::abs(real) < 0x1p62) return hash_combine(2, static_cast<std::uint64_t>(number));
      return hash_combine(3, std::bit_cast<std::uint64_t>(real));
    }
    case Kind::kFloat: {
      const double real = value.as_double();
      if (real == std::floor(real) && std::abs(real) < 0x1p62) {
        return hash_combine(2, static_cast<std::uint64_t>(static_cast<std::int64_t>(real)));
      }
      return hash_combine(3, std::bit_cast<std::uint64_t>(real));
    }
    case Kind::kTuple: {
      std::uint64_t code = 4;
      for (const Value& item : value.as<Sequence>().items) {
        TRY(const std::uint64_t part, hash(state, item));
        code = hash_combine(code, part);
      }
      return code;
    }
    case Kind::kList:
    case Kind::kDict:
      return fail(ErrorCode::kInvalid, "unhashable type: '{}'", type_name(value));
    default:
      return hash_combine(5, reinterpret_cast<std::uintptr_t>(value.as_object()));
  }
}

std::optional<std::int64_t> length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return value.as_text().characters;
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<std::int64_t>(value.as<Sequence>().items.size());
    case Kind::kDict:
      return static_cast<std::int64_t>(value.as<Dict>().entries.size());
    case Kind::kRange:
      return value.as<Range>().length;
    case Kind::kDictView:
      return static_cast<std::int64_t>(value.as<DictView>().dict->entries.size());
    default:
      return std::nullopt;
  }
}

Result<Cursor> Cursor::over(const Value& value) {
  if (value.is_undefined() || value.is(Kind::kIterator) || length(value)) return Cursor(value);
  return fail(ErrorCode::kInvalid, "'{}' object is not iterable", type_name(value));
}

Result<std::optional<Value>> Cursor::next(RenderState& state) {
  TRY_DO(state.charge());
  switch (value_.kind()) {
    case Kind::kString: {
      const std::string_view text = value_.view();
      if (at_ >= text.size()) return std::nullopt;
      const std::size_t bytes = character_bytes(text[at_]);
      const std::string_view character = text.substr(at_, bytes);
      at_ += bytes;
      return state.string(std::string(character));
    }
    case Kind::kList:
    case Kind::kTuple: {
      const auto& items = value_.as<Sequence>().items;
      if (at_ >= items.size()) return std::nullopt;
      return items[at_++];
    }
    case Kind::kDict: {
      const auto& entries = value_.as<Dict>().entries;
      if (at_ >= entries.size()) return std::nullopt;
      return entries[at_++].key;
    }
    case Kind::kDictView: {
      const DictView& view = value_.as<DictView>();
      if (at_ >= view.dict->entries.size()) return std::nullopt;
      const auto& entry = view.dict->entries[at_++];
      if (view.part == DictView::Part::kKeys) return entry.key;
      if (view.part == DictView::Part::kValues) return entry.value;
      return state.tuple({entry.key, entry.value});
    }
    case Kind::kRange: {
      const Range& range = value_.as<Range>();
      if (static_cast<std::int64_t>(at_) >= range.length) return std::nullopt;
      return range.at(static_cast<std::int64_t>(at_++));
    }
    case Kind::kIterator:
      return value_.as<Iterator>().next(state);
    default:
      return std::nullopt;  // undefined: nothing
  }
}

Result<std::vector<Value>> elements(RenderState& state, const Value& value) {
  TRY(Cursor cursor, Cursor::over(value));
  std::vector<Value> all;
  if (const auto count = length(value)) {
    TRY_DO(state.allow_elements(static_cast<std::size_t>(*count)));
    all.reserve(static_cast<std::size_t>(*count));
  }
  while (true) {
    TRY(std::optional<Value> item, cursor.next(state));
    if (!item) return all;
    all.push_back(*std::move(item));
  }
}

Result<Value> from_json(RenderState& state, const json::value& tree) {
  TRY_DO(state.charge());
  switch (tree.kind()) {
    case boost::json::kind::null:
      return Value();
    case boost::json::kind::bool_:
      return Value::boolean(tree.get_bool());
    case boost::json::kind::int64:
      return Value::integer(tree.get_int64());
    case boost::json::kind::uint64:
      return Value::integer(tree.get_uint64());
    case boost::json::kind::double_:
      return Value::real(tree.get_double());
    case boost::json::kind::string: {
      const auto& text = tree.get_string();
      return state.string(std::string(text.data(), text.size()));
    }
    case boost::json::kind::array: {
      std::vector<Value> items;
      items.reserve(tree.get_array().size());
      for (const auto& element : tree.get_array()) {
        TRY(Value item, from_json(state, element));
        items.push_back(std::move(item));
      }
      return state.list(std::move(items));
    }
    case boost::json::kind::object: {
      Dict* dict = state.make<Dict>();
      for (const auto& member : tree.get_object()) {
        TRY(Value value, from_json(state, member.value()));
        const auto name = member.key();
        TRY_DO(dict->set(state, state.string(std::string(name.data(), name.size())),
                         std::move(value)));
      }
      return Value::object(dict);
    }
  }
  return Value();
}

}  // namespace saccade::jinja
