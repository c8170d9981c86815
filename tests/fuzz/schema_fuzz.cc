// JSON schemas of requests, structural tags among them: any bytes are refused or followed, and
// masks agree with accept().
#include "grammar/frontends/structural_tag.h"
#include "grammar/schema/json_schema.h"
#include "tests/fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade;
  if (size == 0 || size > 2048) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto schema = json::parse(text);
  if (!schema) return 0;
  const grammar::JsonOptions options{
      (data[0] & 1) ? grammar::Whitespace::kAny : grammar::Whitespace::kCompact,
      (data[0] & 2) == 0};
  auto made = (data[0] & 4) ? grammar::structural_tag_grammar(*schema, options)
                            : grammar::json_schema_grammar(*schema, options);
  if (made) grammar::compile_and_walk(*std::move(made), hash64(text));
  return 0;
}
