// Any bytes as a tokenizer.json, and what loads is put to use: text in, ids out, and back in steps.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saccade;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = parse_tokenizer(bytes);
  if (!tokenizer) {
    CHECK(!tokenizer.error().message.empty());
    return 0;
  }
  const std::string_view texts[] = {"", "a  b\r\n<s>é\u0301漢👍🏽 don't 123", "\xFF\xF0\x9F<x>  ",
                                    bytes.substr(0, 500)};
  for (const std::string_view text : texts) {
    for (const bool special : {false, true}) {
      auto ids = (*tokenizer)->encode(text, {special, special});
      if (ids.size() > 2000) ids.resize(2000);
      for (std::size_t i = 0; i < size && i < 20; ++i) ids.push_back(data[i] - 3);
      Detokenizer steps(**tokenizer, special);
      std::string joined;
      for (const TokenId id : ids) joined += steps.push(id);
      joined += steps.finish();
      CHECK(joined == (*tokenizer)->decode(ids, special));
    }
  }
  return 0;
}
