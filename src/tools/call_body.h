// What stands between the markers of a call: one machine for each way of writing it, fed byte by
// byte.
#pragma once

#include <memory>
#include <string_view>

#include "base/json.h"
#include "tools/call_writer.h"
#include "tools/json_scanner.h"

namespace saccade::tools {

class CallBody {
 public:
  virtual ~CallBody() = default;
  // kDone, kDoneBefore: the end marker may follow, if there is one. kBad: what the writer has not
  // said is no call.
  virtual Step put(char byte, CallWriter& writer, AnswerEvents& events) = 0;
  // The text is over. True: what was taken is complete.
  virtual bool complete() const { return false; }
  // The text is over within a call: writes what it has of the arguments, cut as they are.
  virtual void cut(CallWriter& /*writer*/, AnswerEvents& /*events*/) {}
};

enum class JsonForm {
  kObject,  // {"name": ..., "arguments": {...}}
  kSeries,  // {...}; {...}   or with white space alone between
  kList,    // [{...}, {...}], or a series
};
// `arguments` may be called parameters. bare: no marker stood before it, so that a call is told by
// having both members.
std::unique_ptr<CallBody> json_body(JsonForm form, bool bare, const CallLimits& limits);

// The function of `tools` (null: none) that is called so; null: there is none.
const json::object* function_named(const json::array* tools, std::string_view name);

// <function=NAME> <parameter=KEY> VALUE </parameter> </function>. `tools` (null: none) say which
// values are strings. in_function: "<function=" was the marker. `end`: the marker that follows.
std::unique_ptr<CallBody> xml_body(const json::array* tools, bool in_function, std::string_view end,
                                   const CallLimits& limits);

enum class PythonForm {
  kList,   // [f(a=1), g(b="x")]
  kLines,  // the same, or calls below each other, each also in print(...)
};
std::unique_ptr<CallBody> python_body(PythonForm form, const CallLimits& limits);

// [{...}, ...] as in json_body, or NAME{...}, NAME[ARGS]{...}, NAME[CALL_ID]ID[ARGS]{...}.
std::unique_ptr<CallBody> mistral_body(const CallLimits& limits);

// JSON or Python, told by the first byte.
std::unique_ptr<CallBody> code_body(const CallLimits& limits);

}  // namespace saccade::tools
