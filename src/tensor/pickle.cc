#include "tensor/pickle.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

namespace saccade {
namespace {

using Kind = PickleValue::Kind;

// What an opcode would do that no kind of data read here needs.
std::string_view refused(unsigned char opcode) {
  switch (opcode) {
    case 'i':
    case 'o':
      return "an instance of a class (INST)";
    case 0x92:
      return "an object (NEWOBJ_EX)";
    case 0x82:
    case 0x83:
    case 0x84:
      return "an extension code (EXT)";
    case 'P':
      return "a persistent id";
    case 0x8f:
    case 0x90:
    case 0x91:
      return "a set";
    case 'S':
    case 'T':
    case 'U':
    case 0x97:
    case 0x98:
      return "bytes";
    default:
      return {};
  }
}

// The stack machine.
class Machine {
 public:
  Machine(std::string_view bytes, const PickleRules& rules) : bytes_(bytes), rules_(rules) {}

  Result<Pickle> run() {
    for (;;) {
      opcode_at_ = at_;
      TRY(const unsigned char opcode, byte());
      if (opcode == '.') break;
      TRY_DO(step(opcode));
    }
    if (stack_.size() != 1 || !marks_.empty()) return broken("it leaves other than one value");
    pickle_.root = stack_[0];
    return std::move(pickle_);
  }

 private:
  tl::unexpected<Error> broken(std::string_view why) const {
    return fail(ErrorCode::kInvalid, "the pickle is broken at byte {}: {}", opcode_at_, why);
  }

  tl::unexpected<Error> refuse(std::string_view what) const {
    return refuse_in_pickle(rules_, what, opcode_at_);
  }
  void beyond_plain(std::string_view what) {
    if (pickle_.beyond_plain.empty()) {
      pickle_.beyond_plain = what;
      pickle_.beyond_plain_at = opcode_at_;
    }
  }

  Result<void> step(unsigned char opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        return skip(1);
      case 0x95:  // FRAME
        return skip(8);
      case '(':
        marks_.push_back(stack_.size());
        return {};
      case '0':
        return pop().map([](std::uint32_t) {});
      case '1':
        return pop_to_mark().map([](const auto&) {});
      case '2':  // DUP
        if (stack_.size() <= floor()) return broken("the stack is empty");
        stack_.push_back(stack_.back());
        return {};
      case 'I':
      case 'L':
        return text_integer();
      case 'J':
        return fixed_integer(4, true);
      case 'K':
        return fixed_integer(1, false);
      case 'M':
        return fixed_integer(2, false);
      case 0x8a:
        return long_integer(1);
      case 0x8b:
        return long_integer(4);
      case 'V':
        return line().map([&](std::string_view text) { push_string(text); });
      case 0x8c:
        return counted_string(1);
      case 'X':
        return counted_string(4);
      case 0x8d:
        return counted_string(8);
      default:
        return sequence_step(opcode);
    }
  }

  Result<void> sequence_step(unsigned char opcode) {
    switch (opcode) {
      case ']':
        push_sequence(Kind::kList, {});
        return {};
      case ')':
        push_sequence(Kind::kTuple, {});
        return {};
      case 'l':
      case 't':
        return pop_to_mark().map([&](std::vector<std::uint32_t> items) {
          push_sequence(opcode == 'l' ? Kind::kList : Kind::kTuple, std::move(items));
        });
      case 0x85:
      case 0x86:
      case 0x87: {
        std::vector<std::uint32_t> items(opcode - 0x84u);
        for (std::size_t i = items.size(); i-- > 0;) {
          TRY(items[i], pop());
        }
        push_sequence(Kind::kTuple, std::move(items));
        return {};
      }
      case 'a': {
        TRY(const std::uint32_t item, pop());
        return append({item});
      }
      case 'e': {
        TRY(const std::vector<std::uint32_t> items, pop_to_mark());
        return append(items);
      }
      default:
        return memo_step(opcode);
    }
  }

  Result<void> memo_step(unsigned char opcode) {
    switch (opcode) {
      case 0x94:  // MEMOIZE
        return remember(memo_.size());
      case 'q': {
        TRY(const std::uint64_t key, unsigned_number(1));
        return remember(key);
      }
      case 'r': {
        TRY(const std::uint64_t key, unsigned_number(4));
        return remember(key);
      }
      case 'p': {
        TRY(const std::uint64_t key, text_key());
        return remember(key);
      }
      case 'h': {
        TRY(const std::uint64_t key, unsigned_number(1));
        return recall(key);
      }
      case 'j': {
        TRY(const std::uint64_t key, unsigned_number(4));
        return recall(key);
      }
      case 'g': {
        TRY(const std::uint64_t key, text_key());
        return recall(key);
      }
      default:
        break;
    }
    return data_step(opcode);
  }

  // What plain lists and numbers do not need.
  Result<void> data_step(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        push_other(Kind::kNone, "None");
        return {};
      case 0x88:
      case 0x89:
        push_other(Kind::kBool, "a boolean", opcode == 0x88 ? 1 : 0);
        return {};
      case 'F':
        push_other(Kind::kFloat, "a float");
        return line().map([](std::string_view) {});
      case 'G':
        push_other(Kind::kFloat, "a float");
        return skip(8);
      case 'C':
        return counted_bytes(1);
      case 'B':
        return counted_bytes(4);
      case 0x8e:
      case 0x96:
        return counted_bytes(8);
      case '}':
        push_other(Kind::kDict, "a dict");
        return {};
      case 'd': {
        TRY(auto items, pop_to_mark());
        push_other(Kind::kDict, "a dict");
        return set_items(std::move(items));
      }
      case 's': {
        TRY(const std::uint32_t value, pop());
        TRY(const std::uint32_t key, pop());
        return set_items({key, value});
      }
      case 'u': {
        TRY(auto items, pop_to_mark());
        return set_items(std::move(items));
      }
      default:
        return object_step(opcode);
    }
  }

  Result<void> object_step(unsigned char opcode) {
    switch (opcode) {
      case 'c': {
        TRY(const std::string_view module, line());
        TRY(const std::string_view name, line());
        return push_class(module, name);
      }
      case 0x93: {
        TRY(const std::uint32_t name, pop());
        TRY(const std::uint32_t module, pop());
        const PickleValue& n = pickle_.values[name];
        const PickleValue& m = pickle_.values[module];
        if (n.kind != Kind::kString || m.kind != Kind::kString)
          return broken("a class whose name is no string");
        return push_class(m.text, n.text);
      }
      case 'R':
      case 0x81: {
        TRY(const std::uint32_t arguments, pop());
        TRY(const std::uint32_t made_by, pop());
        if (pickle_.values[made_by].kind != Kind::kClass ||
            pickle_.values[arguments].kind != Kind::kTuple)
          return refuse("a call (REDUCE)");
        stack_.push_back(add({.kind = Kind::kObject, .text = {}, .items = {made_by, arguments}}));
        return {};
      }
      case 'b': {
        TRY(const std::uint32_t state, pop());
        if (stack_.size() <= floor()) return broken("the stack is empty");
        PickleValue& object = pickle_.values[stack_.back()];
        if (object.kind != Kind::kObject || object.items.size() != 2)
          return refuse("an object's state (BUILD)");
        object.items.push_back(state);
        return {};
      }
      case 'Q': {
        if (!rules_.persistent_ids) return refuse("a persistent id");
        TRY(const std::uint32_t id, pop());
        beyond_plain("a persistent id");
        stack_.push_back(add({.kind = Kind::kPersistent, .text = {}, .items = {id}}));
        return {};
      }
      default:
        break;
    }
    if (const std::string_view what = refused(opcode); !what.empty()) return refuse(what);
    return broken(fmt::format("opcode 0x{:02x} is not known", opcode));
  }

  Result<void> push_class(std::string_view module, std::string_view name) {
    std::string whole = fmt::format("{}.{}", module, name);
    constexpr std::size_t kShown = 80;
    if (!rules_.knows_class(whole))
      return refuse(fmt::format("a class or function ({})", whole.substr(0, kShown)));
    beyond_plain("a class or function (GLOBAL)");
    stack_.push_back(add({.kind = Kind::kClass, .text = std::move(whole), .items = {}}));
    return {};
  }
  void push_other(Kind kind, std::string_view what, std::int64_t number = 0) {
    beyond_plain(what);
    stack_.push_back(add({.kind = kind, .number = number, .text = {}, .items = {}}));
  }
  Result<void> counted_bytes(std::size_t width) {
    TRY(const std::uint64_t size, unsigned_number(width));
    TRY(const std::string_view text, take(size));
    beyond_plain("bytes");
    stack_.push_back(add({.kind = Kind::kBytes, .text = std::string(text), .items = {}}));
    return {};
  }
  Result<void> set_items(std::vector<std::uint32_t> items) {
    if (stack_.size() <= floor()) return broken("the stack is empty");
    PickleValue& dict = pickle_.values[stack_.back()];
    if (dict.kind != Kind::kDict || items.size() % 2 != 0)
      return broken("items are set in what is not a dict");
    dict.items.insert(dict.items.end(), items.begin(), items.end());
    return {};
  }

  // Bytes.

  Result<unsigned char> byte() {
    if (at_ >= bytes_.size()) return broken("it ends early");
    return static_cast<unsigned char>(bytes_[at_++]);
  }
  Result<std::string_view> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) return broken("it ends early");
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return taken;
  }
  Result<void> skip(std::uint64_t count) {
    return take(count).map([](std::string_view) {});
  }
  Result<std::string_view> line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return broken("it ends early");
    const std::string_view text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }
  Result<std::uint64_t> unsigned_number(std::size_t width) {
    TRY(const std::string_view raw, take(width));
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;) value = (value << 8) | static_cast<unsigned char>(raw[i]);
    return value;
  }

  // Integers.

  Result<void> fixed_integer(std::size_t width, bool is_signed) {
    TRY(const std::uint64_t value, unsigned_number(width));
    push_int(is_signed ? static_cast<std::int32_t>(value) : static_cast<std::int64_t>(value));
    return {};
  }
  // Two's complement of any length; values over 64 bits are refused.
  Result<void> long_integer(std::size_t count_width) {
    TRY(const std::uint64_t count, unsigned_number(count_width));
    if (count > 8) return broken(fmt::format("an integer of {} bytes, at most 8 are read", count));
    TRY(const std::uint64_t value, unsigned_number(static_cast<std::size_t>(count)));
    const int unused = static_cast<int>(64 - 8 * count);
    push_int(count == 0 ? 0 : static_cast<std::int64_t>(value << unused) >> unused);
    return {};
  }
  Result<void> text_integer() {
    TRY(std::string_view text, line());
    if (text == "00" || text == "01") {
      push_other(Kind::kBool, "a boolean", text == "01" ? 1 : 0);
      return {};
    }
    if (text.ends_with('L')) text.remove_suffix(1);
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || end != text.data() + text.size())
      return broken("an integer is not understood");
    push_int(value);
    return {};
  }
  Result<std::uint64_t> text_key() {
    TRY(const std::string_view text, line());
    std::uint64_t key = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), key);
    if (code != std::errc() || end != text.data() + text.size())
      return broken("a memo key is not understood");
    return key;
  }

  // Values.

  std::uint32_t add(PickleValue value) {
    pickle_.values.push_back(std::move(value));
    return static_cast<std::uint32_t>(pickle_.values.size() - 1);
  }
  void push_int(std::int64_t number) {
    stack_.push_back(add({.kind = Kind::kInt, .number = number, .text = {}, .items = {}}));
  }
  void push_string(std::string_view text) {
    stack_.push_back(
        add({.kind = Kind::kString, .number = 0, .text = std::string(text), .items = {}}));
  }
  void push_sequence(Kind kind, std::vector<std::uint32_t> items) {
    stack_.push_back(add({.kind = kind, .number = 0, .text = {}, .items = std::move(items)}));
  }
  Result<void> counted_string(std::size_t width) {
    TRY(const std::uint64_t size, unsigned_number(width));
    TRY(const std::string_view text, take(size));
    push_string(text);
    return {};
  }

  // Values below the last mark belong to someone else.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Result<std::uint32_t> pop() {
    if (stack_.size() <= floor()) return broken("the stack is empty");
    const std::uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Result<std::vector<std::uint32_t>> pop_to_mark() {
    if (marks_.empty()) return broken("there is no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<std::uint32_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  Result<void> append(const std::vector<std::uint32_t>& items) {
    if (stack_.size() <= floor()) return broken("the stack is empty");
    PickleValue& list = pickle_.values[stack_.back()];
    if (list.kind != Kind::kList) return broken("items are appended to what is not a list");
    list.items.insert(list.items.end(), items.begin(), items.end());
    return {};
  }
  Result<void> remember(std::uint64_t key) {
    if (stack_.size() <= floor()) return broken("the stack is empty");
    memo_[key] = stack_.back();
    return {};
  }
  Result<void> recall(std::uint64_t key) {
    const auto it = memo_.find(key);
    if (it == memo_.end()) return broken(fmt::format("memo {} is empty", key));
    stack_.push_back(it->second);
    return {};
  }

  std::string_view bytes_;
  const PickleRules& rules_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;  // stack sizes
  std::unordered_map<std::uint64_t, std::uint32_t> memo_;
  Pickle pickle_;
};

}  // namespace

tl::unexpected<Error> refuse_in_pickle(const PickleRules& rules, std::string_view what,
                                       std::size_t at) {
  return fail(ErrorCode::kUnsupported, "the pickle holds {} at byte {}: only {} are read", what, at,
              rules.readable);
}

Result<Pickle> parse_pickle(std::string_view bytes, const PickleRules& rules) {
  if (bytes.size() > std::numeric_limits<std::uint32_t>::max())
    return fail(ErrorCode::kTooLarge, "a pickle of {} bytes, limit {}", bytes.size(),
                std::numeric_limits<std::uint32_t>::max());
  return Machine(bytes, rules).run();
}

}  // namespace saccade
