// Every case of tests/golden/tokenizers (made by tools/goldens/tokenizer_strings.py) both ways, and
// its decoding in steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace saccade {
namespace {

std::filesystem::path golden_folder() {
  const char* elsewhere = std::getenv("TOKENIZER_GOLDENS");  // a larger set, not committed
  return elsewhere != nullptr ? elsewhere : SACCADE_SOURCE_DIR "/tests/golden/tokenizers";
}

std::vector<std::string> golden_kinds() {
  std::vector<std::string> kinds;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder()))
    if (entry.is_directory()) kinds.push_back(entry.path().filename());
  return kinds;
}

struct Case {
  std::string text;
  bool encodes = false;
  bool skip = false;
  EncodeOptions options;
  std::vector<TokenId> ids;
  std::string decoded;
};

Case read_case(const json::object& line) {
  Case c;
  c.encodes = json::find(line, "text") != nullptr;
  c.text = json::get_string_or(line, "text", "").value();
  c.skip = json::get_bool_or(line, "skip", false).value();
  c.options.add_special_tokens = json::get_bool_or(line, "add", false).value();
  c.options.parse_special_tokens = !json::get_bool_or(line, "plain", false).value();
  for (const json::value& id : line.at("ids").get_array())
    c.ids.push_back(static_cast<TokenId>(id.get_int64()));
  c.decoded = json::get_string_or(line, "decoded", c.text).value();
  return c;
}

class TokenizerGolden : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerGolden, EveryCaseBothWays) {
  const auto folder = golden_folder() / GetParam();
  const auto loaded = load_tokenizer(folder.string());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Tokenizer& tokenizer = **loaded;

  std::ifstream file(folder / "strings.jsonl");
  std::string line;
  int cases = 0, wrong = 0;
  while (std::getline(file, line) && wrong < 20) {
    const auto parsed = json::parse(line);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const Case c = read_case(parsed->get_object());
    ++cases;
    if (c.encodes) {
      const auto ids = tokenizer.encode(c.text, c.options);
      EXPECT_THAT(ids, testing::ElementsAreArray(c.ids)) << line << "\n" << ++wrong;
    }
    const std::string decoded = tokenizer.decode(c.ids, c.skip);
    EXPECT_EQ(decoded, c.decoded) << line << "\n" << (decoded != c.decoded ? ++wrong : 0);

    Detokenizer steps(tokenizer, c.skip);
    std::string joined;
    for (const TokenId id : c.ids) joined += steps.push(id);
    joined += steps.finish();
    EXPECT_EQ(joined, decoded) << line;
  }
  EXPECT_GT(cases, 1000);
  RecordProperty("cases", cases);
}

// Streams of ids that no text would give, cut anywhere.
TEST_P(TokenizerGolden, StepsJoinToDecode) {
  const auto loaded = load_tokenizer((golden_folder() / GetParam()).string());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Tokenizer& tokenizer = **loaded;
  Rng rng(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<TokenId> ids(rng.below(12));
    // Half of the ids are low, where the tokens of single bytes are.
    for (TokenId& id : ids) {
      const auto bound = static_cast<std::uint64_t>(tokenizer.vocab_size()) + 2;
      id = static_cast<TokenId>(
               rng.below(rng.below(2) == 0 ? std::min<std::uint64_t>(bound, 300) : bound)) -
           1;
    }
    const bool skip = rng.below(2) == 0;
    Detokenizer steps(tokenizer, skip);
    std::string joined;
    for (const TokenId id : ids) joined += steps.push(id);
    joined += steps.finish();
    ASSERT_EQ(joined, tokenizer.decode(ids, skip)) << testing::PrintToString(ids);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerGolden, testing::ValuesIn(golden_kinds()),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace saccade
