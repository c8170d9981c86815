// What a chat request says of tools: those that it brings, and whether one has to be called.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/requests/fields/fields.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

enum class ToolChoice : std::uint8_t {
  kAuto,      // the model decides
  kNone,      // an answer's text is text, whatever it looks like
  kRequired,  // one at least
  kNamed,     // the one named, once
};

struct ToolFields {
  // As given, members in their order; null: none. Every one is {"type": "function", "function":
  // {"name": ...}}.
  std::shared_ptr<const json::array> list;
  ToolChoice choice = ToolChoice::kNone;  // without tools always kNone
  std::string name;                       // kNamed: of one of `list`
  // The names that allowed_tools leaves, of which alone the rest of `list` is made; empty: all.
  std::vector<std::string> allowed;
  bool parallel = true;  // false: one call an answer

  bool may_be_called() const { return choice != ToolChoice::kNone; }
  bool demanded() const { return choice == ToolChoice::kRequired || choice == ToolChoice::kNamed; }
};

// Takes tools, tool_choice and parallel_tool_calls. kInvalid names the member. Of tools that
// tool_choice does not allow nothing is left.
Result<ToolFields> take_tool_fields(Fields& fields);

// An assistant's tool_calls and a tool's tool_call_id, of the message that errors call `where`.
Result<void> check_tool_members(const json::object& message, std::string_view role,
                                std::string_view where);

// Clients send a call's arguments as JSON text; templates want what it says, and no text is no
// arguments, as null in it is. Other text that is no JSON object stays as it is: a model may have
// written it.
json::value with_parsed_arguments(const json::value& tool_calls);

}  // namespace saccade::api
