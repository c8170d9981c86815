// Reading JSON: Boost.JSON with errors that name the field. Writing: JsonWriter, whose numbers look
// as Python's do.
#pragma once

#include <boost/json/fwd.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::json {

using boost::json::array;
using boost::json::object;
using boost::json::string;
using boost::json::value;

// Strict JSON, nesting at most `max_depth`. The error says the byte offset and what is wrong there.
Result<value> parse(std::string_view text, std::size_t max_depth = 64);

// The file's text parsed; errors name the path. Files over 256 MiB are refused.
Result<value> parse_file(const std::string& path, std::size_t max_depth = 64);

// Member look-ups. `find` returns null for a member that is absent or JSON null.
const value* find(const object& from, std::string_view name);

// Required members: kInvalid naming the member when it is absent, of another type, or out of range.
Result<std::int64_t> get_int(const object& from, std::string_view name);
Result<double> get_double(const object& from, std::string_view name);
Result<bool> get_bool(const object& from, std::string_view name);
Result<std::string> get_string(const object& from, std::string_view name);

// Optional members: the fallback when absent or null; a wrong type is still an error.
Result<std::int64_t> get_int_or(const object& from, std::string_view name, std::int64_t fallback);
Result<double> get_double_or(const object& from, std::string_view name, double fallback);
Result<bool> get_bool_or(const object& from, std::string_view name, bool fallback);
Result<std::string> get_string_or(const object& from, std::string_view name,
                                  std::string_view fallback);

// "null", "a boolean", "a string", ...: for messages.
std::string_view kind_name(const value& v);

// Its JSON, cut short after 80 bytes: for messages.
std::string shown(const value& v);

// Appends `text` as a JSON string with its quotes. Non-ASCII is kept as UTF-8; invalid UTF-8
// becomes U+FFFD, by maximal parts, as in Python.
void append_quoted(std::string& out, std::string_view text);

// Appends a number as Python's json does: integers plain, floats by shortest round trip ("2.0",
// "1e-05", "NaN").
void append_number(std::string& out, double number);

// Compact writer into a string it is given. Keys and values alternate inside objects; commas are
// its business.
//   JsonWriter w(out); w.begin_object(); w.key("id"); w.value("x"); w.end_object();
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}
  void begin_object();
  void end_object();
  void begin_array();
  void end_array();
  void key(std::string_view name);
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(double number);
  void value(std::int64_t number);
  void value(int number) { value(static_cast<std::int64_t>(number)); }
  void value(std::uint64_t number);
  void value(bool truth);
  void null();
  void raw(std::string_view json);      // already serialised JSON, placed as a value
  void value(const json::value& tree);  // a parsed tree, member order kept

  template <typename T>
  void member(std::string_view name, const T& v) {
    key(name);
    value(v);
  }

 private:
  void separate();
  std::string& out_;
  bool needs_comma_ = false;
};

}  // namespace saccade::json
