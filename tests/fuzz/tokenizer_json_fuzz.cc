// Any bytes as tokenizer.json; what loads must encode and decode without harm.
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tokenizer =
      saccade::parse_tokenizer(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!tokenizer) return 0;
  const auto ids = (*tokenizer)
                       ->encode("Hello, world! 123 <|im_end|> \xE4\xBD\xA0\xE5\xA5\xBD \xFF",
                                {.add_special_tokens = true});
  (void)(*tokenizer)->decode(ids, false);
  (void)(*tokenizer)->decode(ids, true);
  return 0;
}
