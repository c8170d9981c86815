#include "base/json.h"

#include <atomic>
#include <boost/json/memory_resource.hpp>
#include <boost/json/storage_ptr.hpp>
#include <boost/json/stream_parser.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "base/regular_file.h"
#include "base/text/utf8.h"

namespace saccade::json {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

tl::unexpected<Error> wrong(std::string_view name, std::string_view wanted, const value* got) {
  Error error{ErrorCode::kInvalid, {}, std::string(name)};
  error.message = got == nullptr
                      ? fmt::format("'{}' is missing, {} is required", name, wanted)
                      : fmt::format("'{}' is {}, {} is required", name, kind_name(*got), wanted);
  return fail(std::move(error));
}

Result<std::int64_t> to_int(std::string_view name, const value& v) {
  if (v.is_int64()) return v.get_int64();
  if (v.is_double()) {
    const double d = v.get_double();
    if (d == std::floor(d) && std::abs(d) < 9.0e15) return static_cast<std::int64_t>(d);
  }
  if (v.is_uint64() || (v.is_double() && std::abs(v.get_double()) >= 9.0e15)) {
    std::string number;
    JsonWriter(number).value(v);
    return fail(Error{ErrorCode::kInvalid,
                      fmt::format("'{}' is {}, {} to {} is possible", name, number,
                                  std::numeric_limits<std::int64_t>::min(),
                                  std::numeric_limits<std::int64_t>::max()),
                      std::string(name)});
  }
  return wrong(name, "an integer", &v);
}

Result<double> to_double(std::string_view name, const value& v) {
  if (v.is_double()) return v.get_double();
  if (v.is_int64()) return static_cast<double>(v.get_int64());
  if (v.is_uint64()) return static_cast<double>(v.get_uint64());
  return wrong(name, "a number", &v);
}

// A tree takes many times its text where the text is all brackets and commas: a body of 60 MiB of
// them took 1.6 GB. What is read out of a text may take this much, and twice the text.
constexpr std::size_t kMaxTreeBytes = std::size_t{384} << 20;
constexpr std::size_t kSmallText = std::size_t{1} << 20;  // takes less whatever is in it

class BoundedMemory final : public boost::json::memory_resource {
 public:
  // `exhausted` is set by the first allocation that goes over `most` bytes.
  BoundedMemory(std::size_t most, std::shared_ptr<std::atomic<bool>> exhausted)
      : most_(most), exhausted_(std::move(exhausted)) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (used_.fetch_add(bytes) + bytes > most_) {
      used_ -= bytes;
      *exhausted_ = true;
      throw std::bad_alloc();
    }
    return ::operator new(bytes, std::align_val_t(alignment));
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    used_ -= bytes;
    ::operator delete(memory, std::align_val_t(alignment));
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  const std::size_t most_;
  std::atomic<std::size_t> used_{0};
  const std::shared_ptr<std::atomic<bool>> exhausted_;
};

// The encoding of a text that is not in UTF-8, by its mark or by the zeros of its first character,
// which in JSON is of ASCII; empty where nothing says so.
std::string_view other_encoding(std::string_view text) {
  const auto begins = [&](std::string_view bytes) { return text.starts_with(bytes); };
  const auto zero = [&](std::size_t i) { return i < text.size() && text[i] == '\0'; };
  if (begins({"\xFF\xFE\0\0", 4}) || begins({"\0\0\xFE\xFF", 4})) return "UTF-32";
  if (begins("\xFF\xFE") || begins("\xFE\xFF")) return "UTF-16";
  if (text.size() >= 4 && zero(1) && zero(2) && zero(0) != zero(3)) return "UTF-32";
  if (text.size() >= 2 && zero(0) != zero(1)) return "UTF-16";
  return {};
}

Result<value> parse_into(const boost::json::storage_ptr& memory, std::string_view text,
                         std::size_t max_depth, std::size_t skipped) {
  boost::json::parse_options options;
  options.max_depth = max_depth;
  boost::json::error_code code;
  boost::json::stream_parser parser(memory, options);
  parser.reset(memory);
  const std::size_t consumed = parser.write_some(text.data(), text.size(), code);
  if (code)
    return fail(ErrorCode::kInvalid, "JSON is malformed at byte {}: {}", skipped + consumed,
                code.message());
  if (text.substr(consumed).find_first_not_of(" \t\r\n") != std::string_view::npos) {
    return fail(ErrorCode::kInvalid, "JSON is malformed at byte {}: extra data after the value",
                skipped + consumed);
  }
  if (!code && !parser.done()) parser.finish(code);
  if (code)
    return fail(ErrorCode::kInvalid, "JSON is malformed at byte {}: it ends early",
                skipped + text.size());
  return parser.release();
}

}  // namespace

Result<value> parse(std::string_view text, std::size_t max_depth) {
  if (const std::string_view encoding = other_encoding(text); !encoding.empty())
    return fail(ErrorCode::kInvalid, "JSON is malformed: it is in {}, and UTF-8 is required",
                encoding);
  // RFC 8259, 8.1: a byte order mark may be passed over. Editors and shells of Windows write one.
  const std::size_t mark = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  text.remove_prefix(mark);
  if (text.size() <= kSmallText) return parse_into({}, text, max_depth, mark);
  const std::size_t most = kMaxTreeBytes + 2 * text.size();
  const auto exhausted = std::make_shared<std::atomic<bool>>(false);
  const auto memory = boost::json::make_shared_resource<BoundedMemory>(most, exhausted);
  try {
    return parse_into(memory, text, max_depth, mark);
  } catch (const std::bad_alloc&) {
    if (!*exhausted) throw;
    return fail(ErrorCode::kInvalid, "JSON of {} bytes has so many values that they take over {}",
                text.size(), most);
  }
}

Result<value> parse_file(const std::string& path, std::size_t max_depth) {
  TRY(const std::string text, read_regular_file(path, kMaxFileBytes));
  auto parsed = parse(text, max_depth);
  if (!parsed) return fail_within(path, std::move(parsed).error());
  return parsed;
}

const value* find(const object& from, std::string_view name) {
  const auto it = from.find(boost::json::string_view(name.data(), name.size()));
  if (it == from.end() || it->value().is_null()) return nullptr;
  return &it->value();
}

Result<std::int64_t> get_int(const object& from, std::string_view name) {
  const value* v = find(from, name);
  return v ? to_int(name, *v) : wrong(name, "an integer", nullptr);
}

Result<double> get_double(const object& from, std::string_view name) {
  const value* v = find(from, name);
  return v ? to_double(name, *v) : wrong(name, "a number", nullptr);
}

Result<bool> get_bool(const object& from, std::string_view name) {
  const value* v = find(from, name);
  if (v == nullptr || !v->is_bool()) return wrong(name, "a boolean", v);
  return v->get_bool();
}

Result<std::string> get_string(const object& from, std::string_view name) {
  const value* v = find(from, name);
  if (v == nullptr || !v->is_string()) return wrong(name, "a string", v);
  return std::string(v->get_string());
}

Result<std::int64_t> get_int_or(const object& from, std::string_view name, std::int64_t fallback) {
  return find(from, name) ? get_int(from, name) : Result<std::int64_t>(fallback);
}

Result<double> get_double_or(const object& from, std::string_view name, double fallback) {
  return find(from, name) ? get_double(from, name) : Result<double>(fallback);
}

Result<bool> get_bool_or(const object& from, std::string_view name, bool fallback) {
  return find(from, name) ? get_bool(from, name) : Result<bool>(fallback);
}

Result<std::string> get_string_or(const object& from, std::string_view name,
                                  std::string_view fallback) {
  return find(from, name) ? get_string(from, name) : Result<std::string>(std::string(fallback));
}

std::string shown(const value& v) {
  std::string text;
  JsonWriter(text).value(v);
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

std::string_view kind_name(const value& v) {
  switch (v.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return "a boolean";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
      return "an integer";
    case boost::json::kind::double_:
      return "a number";
    case boost::json::kind::string:
      return "a string";
    case boost::json::kind::array:
      return "an array";
    case boost::json::kind::object:
      return "an object";
  }
  return "unknown";
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const unsigned char c = static_cast<unsigned char>(text[0]);
    std::size_t used = 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else if (c < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      const Utf8Step step = decode_utf8(text, 0);
      out += step.kind == Utf8Step::Kind::kCharacter ? text.substr(0, step.length) : "\xEF\xBF\xBD";
      used = step.length;
    }
    text.remove_prefix(used);
  }
  out += '"';
}

void append_number(std::string& out, double number) {
  if (std::isnan(number)) {
    out += "NaN";
  } else if (std::isinf(number)) {
    out += number > 0 ? "Infinity" : "-Infinity";
  } else {
    // Python's repr: shortest digits that round trip; exponent form below 1e-4 and from 1e16 on.
    const double magnitude = std::abs(number);
    const bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
    char buffer[64];
    const auto [end, code] =
        std::to_chars(buffer, buffer + sizeof(buffer), number,
                      scientific ? std::chars_format::scientific : std::chars_format::fixed);
    const std::string_view digits(buffer, static_cast<std::size_t>(end - buffer));
    out += digits;
    if (!scientific && digits.find('.') == std::string_view::npos) out += ".0";
  }
}

void JsonWriter::separate() {
  if (needs_comma_) out_ += ',';
  needs_comma_ = true;
}

void JsonWriter::begin_object() {
  separate();
  out_ += '{';
  needs_comma_ = false;
}

void JsonWriter::end_object() {
  out_ += '}';
  needs_comma_ = true;
}

void JsonWriter::begin_array() {
  separate();
  out_ += '[';
  needs_comma_ = false;
}

void JsonWriter::end_array() {
  out_ += ']';
  needs_comma_ = true;
}

void JsonWriter::key(std::string_view name) {
  separate();
  append_quoted(out_, name);
  out_ += ':';
  needs_comma_ = false;
}

void JsonWriter::value(std::string_view text) {
  separate();
  append_quoted(out_, text);
}

void JsonWriter::value(double number) {
  separate();
  append_number(out_, number);
}

void JsonWriter::value(std::int64_t number) {
  separate();
  out_ += fmt::to_string(number);
}

void JsonWriter::value(std::uint64_t number) {
  separate();
  out_ += fmt::to_string(number);
}

void JsonWriter::value(bool truth) {
  separate();
  out_ += truth ? "true" : "false";
}

void JsonWriter::null() {
  separate();
  out_ += "null";
}

void JsonWriter::raw(std::string_view text) {
  separate();
  out_ += text;
}

void JsonWriter::value(const json::value& tree) {
  switch (tree.kind()) {
    case boost::json::kind::null:
      return null();
    case boost::json::kind::bool_:
      return value(tree.get_bool());
    case boost::json::kind::int64:
      return value(tree.get_int64());
    case boost::json::kind::uint64:
      return value(tree.get_uint64());
    case boost::json::kind::double_:
      return value(tree.get_double());
    case boost::json::kind::string:
      return value(std::string_view(tree.get_string()));
    case boost::json::kind::array:
      begin_array();
      for (const auto& item : tree.get_array()) value(item);
      return end_array();
    case boost::json::kind::object:
      begin_object();
      for (const auto& item : tree.get_object()) {
        key(std::string_view(item.key()));
        value(item.value());
      }
      return end_object();
  }
}

}  // namespace saccade::json
