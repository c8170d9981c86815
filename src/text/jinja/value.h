// Values of the template language: what Python's objects become while a template is rendered.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::jinja {

class RenderState;
class Value;

// Python's int, up to 127 bits; what goes beyond is refused.
__extension__ typedef __int128 Integer;
constexpr Integer kIntegerMax = ((Integer{1} << 126) - 1) * 2 + 1;

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kNamespace,
  kRange,
  kDictView,
  kIterator,
  kCallable,
  kLoop,
};

// Immutable UTF-8 text. Markup is text that `safe` or `escape` marked: joining it with plain text
// escapes the plain text, as markupsafe does.
struct Text {
  Text(std::string text, bool is_markup, std::int64_t* live);
  ~Text();
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  bool is_ascii() const { return characters == static_cast<std::int64_t>(bytes.size()); }

  const std::string bytes;
  const std::int64_t characters;  // code points: what len() says
  const bool markup;

 private:
  std::int64_t* live_bytes_;  // of the render that made it; null for a template's own constants
};

// Why a value is undefined: said only when something is done with it that undefined cannot do.
struct Absence {
  enum class Reason { kName, kAttribute, kElement, kUnsafe, kHint } reason = Reason::kName;
  std::string name;   // of the variable, attribute or element; the whole sentence for kHint
  std::string owner;  // "dict object", for kAttribute and kElement; "list" for kUnsafe
  std::string message() const;
};

// Anything with identity. Owned by the RenderState, freed with it: cycles and depth cost nothing.
struct Object {
  explicit Object(Kind k) : kind(k) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  // Attributes beyond methods (loop.index, ns.x, group.grouper); empty: there is no such attribute.
  virtual Result<std::optional<Value>> attribute(RenderState& state, std::string_view name);

  const Kind kind;
  int depth = 1;  // of nested containers, itself included: bounds every recursion over values
};

// 32 bytes, cheap to copy. None by default.
class Value {
 public:
  Value() = default;
  static Value undefined(Absence cause) {
    return Value(std::make_shared<const Absence>(std::move(cause)));
  }
  static Value boolean(bool truth) { return Value(truth); }
  static Value integer(Integer number) { return Value(number); }
  static Value real(double number) { return Value(number); }
  static Value text(std::shared_ptr<const Text> text) { return Value(std::move(text)); }
  static Value object(Object* object) { return Value(object); }

  Kind kind() const;
  bool is(Kind k) const { return kind() == k; }
  bool is_undefined() const { return std::holds_alternative<AbsencePtr>(held_); }
  bool is_none() const { return std::holds_alternative<std::monostate>(held_); }
  bool is_string() const { return std::holds_alternative<TextPtr>(held_); }
  bool is_object() const { return std::holds_alternative<Object*>(held_); }
  bool is_sequence() const { return is(Kind::kList) || is(Kind::kTuple); }
  // bool is an int in Python
  bool is_integral() const {
    return std::holds_alternative<Integer>(held_) || std::holds_alternative<bool>(held_);
  }
  bool is_number() const { return is_integral() || std::holds_alternative<double>(held_); }

  const Absence& absence() const { return *get<AbsencePtr>(); }
  bool as_bool() const { return get<bool>(); }
  Integer as_integer() const;  // of an int or a bool
  double as_double() const;    // of any number
  const Text& as_text() const { return *get<TextPtr>(); }
  std::string_view view() const { return get<TextPtr>()->bytes; }  // of a string
  Object* as_object() const { return get<Object*>(); }
  template <typename T>
  T& as() const {
    return *static_cast<T*>(get<Object*>());
  }

 private:
  using AbsencePtr = std::shared_ptr<const Absence>;
  using TextPtr = std::shared_ptr<const Text>;
  using Held = std::variant<std::monostate, bool, Integer, double, TextPtr, AbsencePtr, Object*>;
  explicit Value(Held held) : held_(std::move(held)) {}
  template <typename T>
  const T& get() const {
    const T* held = std::get_if<T>(&held_);
    CHECK(held != nullptr, "value of kind {}", static_cast<int>(kind()));
    return *held;
  }
  Held held_;
};

// list and tuple.
struct Sequence : Object {
  Sequence(Kind k, std::vector<Value> elements) : Object(k), items(std::move(elements)) {}
  Result<std::optional<Value>> attribute(RenderState& state, std::string_view name) override;
  std::vector<Value> items;
  bool is_group = false;  // groupby's pair, whose parts are also .grouper and .list
};

// A dict in order of insertion. Keys are Python's: 1, 1.0 and True are one key.
struct Dict : Object {
  struct Entry {
    std::uint64_t hash;
    Value key;
    Value value;
  };
  Dict() : Object(Kind::kDict) {}
  const Value* find(std::string_view key) const;
  // kInvalid: the key is not hashable.
  Result<const Value*> find(RenderState& state, const Value& key) const;
  Result<void> set(RenderState& state, const Value& key, Value value);

  std::vector<Entry> entries;

 private:
  template <typename Same>
  Result<const Entry*> look_up(std::uint64_t hash, const Same& same) const;
  void insert(std::uint64_t hash, const Value& key, Value value);
  std::unordered_multimap<std::uint64_t, std::uint32_t> index_;  // kept from kIndexed entries on
};

// namespace(): the only object that a template can change.
struct Namespace : Object {
  Namespace() : Object(Kind::kNamespace) {}
  Result<std::optional<Value>> attribute(RenderState& state, std::string_view name) override;
  Dict attributes;
};

struct Range : Object {
  Range(Integer first, Integer past, Integer stride, std::int64_t count)
      : Object(Kind::kRange), start(first), stop(past), step(stride), length(count) {}
  Result<std::optional<Value>> attribute(RenderState& state, std::string_view name) override;
  Value at(std::int64_t index) const { return Value::integer(start + step * index); }
  const Integer start, stop, step;
  const std::int64_t length;
};

// What dict.keys(), .values() and .items() return.
struct DictView : Object {
  enum class Part : std::uint8_t { kKeys, kValues, kItems };
  DictView(const Dict* of, Part which) : Object(Kind::kDictView), dict(of), part(which) {
    depth = of->depth + 1;
  }
  const Dict* dict;
  const Part part;
};

// A generator: consumed as it is read, lazily.
struct Iterator : Object {
  explicit Iterator(std::string_view type) : Object(Kind::kIterator), type_name(type) {}
  virtual Result<std::optional<Value>> next(RenderState& state) = 0;
  const std::string_view type_name;  // for repr
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable : Object {
  explicit Callable(Kind k = Kind::kCallable) : Object(k) {}
  virtual Result<Value> call(RenderState& state, Arguments& arguments) = 0;
  virtual std::string repr() const = 0;
};

bool truth(const Value& value);
// "str", "NoneType", ...: what Python's errors call it.
std::string_view type_name(const Value& value);
// "dict object", "None": how jinja2 names the owner of a missing attribute.
std::string owner_name(const Value& value);
// "'x' is undefined" and the like, as the error that an operation on undefined is.
tl::unexpected<Error> undefined_error(const Value& value);

// Python's ==.
Result<bool> equals(RenderState& state, const Value& a, const Value& b);
// Negative, zero, positive; kInvalid where Python's < refuses the pair. `sign` is the operator for
// the message.
Result<int> compare(RenderState& state, const Value& a, const Value& b, std::string_view sign);
Result<std::uint64_t> hash(RenderState& state, const Value& value);

// len(); empty: the kind has none.
std::optional<std::int64_t> length(const Value& value);

// Walks anything that Python can iterate. kInvalid from `over` when the kind cannot be.
class Cursor {
 public:
  static Result<Cursor> over(const Value& value);
  Result<std::optional<Value>> next(RenderState& state);

 private:
  explicit Cursor(Value value) : value_(std::move(value)) {}
  Value value_;
  std::size_t at_ = 0;  // element, or byte of a string
};

// All elements. Charges one step each.
Result<std::vector<Value>> elements(RenderState& state, const Value& value);

// A parsed JSON tree as Python's json.loads would give it.
Result<Value> from_json(RenderState& state, const json::value& tree);

}  // namespace saccade::jinja
