// Template source, parsed and rendered: never a crash, a hang or memory without bound.
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "text/jinja/builtins/globals.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/syntax/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade;
  static const json::value kVariables = *json::parse(R"({
    "messages": [{"role": "system", "content": "Be brief."},
                 {"role": "user", "content": [{"type": "text", "text": "é \n"}, {"type": "image"}]},
                 {"role": "assistant", "content": null,
                  "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]}],
    "tools": null, "tree": [{"v": 1, "c": [{"v": 2}]}], "bos_token": "<s>",
    "add_generation_prompt": true})");
  const auto program = jinja::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!program) return 0;
  jinja::RenderLimits limits;
  limits.max_steps = 100'000;
  limits.max_live_bytes = 16 << 20;
  limits.max_output_bytes = 1 << 20;
  limits.max_string_bytes = 1 << 20;
  jinja::RenderState state(limits, 1'795'167'000);
  jinja::Variables variables;
  jinja::add_globals(state, variables);
  for (const auto& member : kVariables.get_object()) {
    variables[std::string(member.key())] = *jinja::from_json(state, member.value());
  }
  (void)jinja::Interpreter(state, variables).run(*program);
  return 0;
}
