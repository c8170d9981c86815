// EBNF of requests: any bytes are refused or followed, and masks agree with accept().
#include "grammar/frontends/ebnf_parser.h"
#include "tests/fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade;
  if (size > 1024) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto made = grammar::parse_ebnf(text);
  if (made) grammar::compile_and_walk(*std::move(made), hash64(text));
  return 0;
}
