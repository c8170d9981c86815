// The ways in which models write calls and thoughts, by vLLM's names.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::tools {

enum class BodyKind {
  kJson,           // one object
  kJsonList,       // a list of objects, or objects after each other
  kJsonLines,      // the same; a line that is no call does not end the others
  kJsonSeries,     // objects after each other
  kXml,            // <function=...>
  kXmlInFunction,  // the same, after "<function="
  kPython,         // [f(a=1)]
  kMistral,        // a list, or NAME{...}
  kCode,           // JSON or Python
};

struct CallMarker {
  std::string_view begin;
  std::string_view end;  // empty: none; may be missing in any case
  BodyKind body;
};

// How calls are written where a grammar demands them: `before` CALL `between` CALL ... `after`,
// with CALL = `before_name` NAME `before_arguments` JSON `after_arguments`. Empty: arguments are no
// JSON.
struct WrittenForm {
  std::string_view before;
  std::string_view before_name;
  std::string_view before_arguments;
  std::string_view after_arguments;
  std::string_view between;
  std::string_view after;
};

struct ToolCallFormat {
  std::string_view name;
  std::span<const CallMarker> markers;  // none begins another
  // Calls may also be the whole answer, without a marker: told by the first byte (0: no) and by the
  // names of the tools that were given.
  char bare = 0;
  BodyKind bare_body = BodyKind::kJson;
  WrittenForm written = {};
  bool short_ids = false;  // nine letters and digits, as Mistral's templates demand
  // Thoughts, in which there are no calls; empty: it has none.
  std::string_view thoughts_begin = {};
  std::string_view thoughts_end = {};
};

struct ReasoningFormat {
  std::string_view name;
  std::string_view begin;
  std::string_view end;
  bool from_the_start = false;  // an answer begins in thoughts, whether they are opened or not
};

// kInvalid with the list of names.
Result<const ToolCallFormat*> tool_call_format(std::string_view name);
Result<const ReasoningFormat*> reasoning_format(std::string_view name);

std::span<const ToolCallFormat> tool_call_formats();
std::span<const ReasoningFormat> reasoning_formats();

// The format in which a chat template writes calls, by the markers in its source; null: it names
// none that is known.
const ToolCallFormat* format_of_template(std::string_view source);
const ReasoningFormat* reasoning_of_template(std::string_view source);

// The prompt ends in thoughts that it opened.
bool opens_reasoning(const ReasoningFormat& format, std::string_view prompt);

// The id of call number `call` of an answer: the same for the same seed.
std::string call_id(const ToolCallFormat& format, std::string_view seed, int call);

}  // namespace saccade::tools
