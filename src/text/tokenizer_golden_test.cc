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
#include "text/encode_limit.h"
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

// A limit stops a text exactly when it has more tokens, whatever a normaliser drops, joins or
// collapses, and what it says of the number is true.
TEST_P(TokenizerGolden, ALimitRefusesJustWhatIsTooLong) {
  const auto folder = golden_folder() / GetParam();
  const auto loaded = load_tokenizer(folder.string());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto& tokenizer = dynamic_cast<const StoppableTokenizer&>(**loaded);
  std::vector<std::string> texts = {std::string(4000, ' '), std::string(4000, 'a'),
                                    std::string(3000, '\x01'), "a" + std::string(3000, '\t') + "b"};
  for (const char* repeated : {"e\u0301", "\uFF21", "\u1111\u1171\u11B6", "\U0001D400", "\u212A",
                               "\u200B", "\U000E0100", "\u0301", "\U0001F600"}) {
    std::string& text = texts.emplace_back();
    for (int i = 0; i < 500; ++i) text += repeated;
  }
  std::ifstream file(folder / "strings.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto parsed = json::parse(line);
    ASSERT_TRUE(parsed) << parsed.error().message;
    texts.push_back(read_case(parsed->get_object()).text);
  }
  for (const std::string& text : texts) {
    const auto whole = tokenizer.encode(text, {});
    const std::size_t count = whole.size();
    for (const std::size_t most : {std::size_t{0}, count / 2, count - 1, count, count + 1}) {
      EncodeLimit limit;
      limit.max_tokens = most;
      const auto ids = tokenizer.encode_within(text, {}, limit);
      ASSERT_EQ(limit.stopped, count > most) << text.substr(0, 80) << ": " << count << " " << most;
      if (limit.stopped) {
        ASSERT_GT(limit.at_least, most);
        ASSERT_LE(limit.at_least, count) << text.substr(0, 80);
      } else {
        ASSERT_EQ(ids, whole);
      }
    }
    const std::atomic<bool> gone = true;
    EncodeLimit limit;
    limit.cancelled = &gone;
    if (!text.empty()) {
      EXPECT_TRUE(tokenizer.encode_within(text, {}, limit).empty());
      EXPECT_TRUE(limit.stopped);
      EXPECT_EQ(limit.at_least, 0u);
    }
  }
}

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
