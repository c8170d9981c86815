// Generated text of any bytes in every format of calls and thoughts: cut anywhere it says the same,
// in order, and within the limits.
#include <boost/json/array.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/rng.h"
#include "tools/answer_parser.h"

namespace {

using namespace saccade;
using Kind = tools::AnswerEvent::Kind;

// Calls are numbered as they begin, one is open at a time, and every one ends.
void check_order(const tools::AnswerEvents& events, const tools::CallLimits& limits) {
  int begun = 0;
  bool open = false;
  std::size_t bytes = 0;
  for (const tools::AnswerEvent& event : events.list()) {
    if (event.kind == Kind::kCallBegin) {
      CHECK(!open && event.call == begun++ && begun <= limits.calls && !event.text.empty());
      CHECK(event.text.size() <= limits.name_bytes);
      open = true;
      bytes = 0;
    } else if (event.kind == Kind::kArguments) {
      bytes += event.text.size();
      CHECK(open && event.call == begun - 1 && bytes <= limits.argument_bytes);
    } else if (event.kind == Kind::kCallEnd) {
      CHECK(open && event.call == begun - 1);
      open = false;
    } else {
      CHECK(!open && !event.text.empty());
    }
  }
  CHECK(!open);
}

tools::AnswerEvents read_in_pieces(const tools::ParserForm& form, std::string_view text, Rng& rng,
                                   std::uint64_t most) {
  tools::AnswerParser parser(form);
  tools::AnswerEvents all;
  while (!text.empty()) {
    const auto size = std::min<std::size_t>(text.size(), 1 + rng.below(most));
    parser.feed(text.substr(0, size), all);
    text.remove_prefix(size);
  }
  parser.finish(all);
  return all;
}

}  // namespace

// The first byte chooses the format, the second the thoughts; the rest is the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 4096) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  static const auto kTools = std::make_shared<const json::array>(
      json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"properties":
                  {"s": {"type": "string"}, "n": {"type": "integer"}}}}}])")
          ->as_array());
  const auto formats = tools::tool_call_formats();
  tools::ParserForm form;
  form.calls = &formats[data[0] % formats.size()];
  if (data[1] % 4 != 0)
    form.reasoning = tools::reasoning_format(data[1] % 4 == 1 ? "qwen3" : "deepseek_r1").value();
  form.in_reasoning = data[1] % 8 > 4;
  form.tools = kTools;
  form.limits = {.calls = 3, .argument_bytes = 64, .name_bytes = 16, .depth = 4};

  Rng rng(hash64(text));
  const tools::AnswerEvents whole = read_in_pieces(form, text, rng, 1U << 20);
  check_order(whole, form.limits);
  CHECK(read_in_pieces(form, text, rng, 1).list() == whole.list());
  CHECK(read_in_pieces(form, text, rng, 12).list() == whole.list());
  return 0;
}
