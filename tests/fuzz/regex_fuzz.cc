// Regular expressions of requests: any bytes are refused or followed, and masks agree with
// accept().
#include "grammar/frontends/regex_parser.h"
#include "tests/fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade;
  if (size == 0 || size > 512) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  grammar::Grammar made;
  const auto root = grammar::parse_regex(
      made, text, {.search = (data[0] & 1) != 0, .json_string = (data[0] & 2) != 0});
  if (!root) return 0;
  made.set_root(made.add_rule("root", *root));
  grammar::compile_and_walk(std::move(made), hash64(text));
  return 0;
}
