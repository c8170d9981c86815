#include "bench/pickle.h"

#include <gtest/gtest.h>

#include "bench/text_file.h"

namespace saccade::bench {
namespace {

std::string file(const std::string& path) {
  auto text = read_text_file(SACCADE_SOURCE_DIR "/tests/" + path);
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("");
}

TEST(Pickle, EveryProtocol) {
  for (int protocol = 0; protocol <= 5; ++protocol) {
    const auto pickle = parse_pickle(file(fmt::format("golden/bench/prompts_p{}.pkl", protocol)));
    ASSERT_TRUE(pickle) << protocol << ": " << pickle.error().message;
    const auto rows = token_rows(*pickle);
    ASSERT_TRUE(rows) << protocol << ": " << rows.error().message;
    ASSERT_EQ(rows->size(), 6u);
    EXPECT_EQ((*rows)[0], (std::vector<std::int32_t>{1, 2, 3}));
    EXPECT_EQ((*rows)[1], (std::vector<std::int32_t>{4, 5, 70000}));
    EXPECT_EQ((*rows)[2], (std::vector<std::int32_t>{2147483647, 0}));
    EXPECT_EQ((*rows)[3].size(), 300u);
    EXPECT_EQ((*rows)[3][299], 299);
    EXPECT_EQ((*rows)[4], (std::vector<std::int32_t>{7, 8}));  // beside a name and a number
    EXPECT_EQ((*rows)[5], (*rows)[0]);
  }
}

TEST(Pickle, EverythingElseIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"class", "a class or function"},
      {"call", "a class or function"},
      {"dict", "a dict"},
      {"none", "None"},
      {"float", "a float"},
      {"bool", "a boolean"},
      {"bytes", "bytes"},
      {"big", "an integer of 11 bytes"}};
  for (const auto& [name, expected] : cases) {
    const auto pickle = parse_pickle(file("fuzz/corpus/pickle/" + name));
    ASSERT_FALSE(pickle) << name;
    EXPECT_NE(pickle.error().message.find(expected), std::string::npos) << pickle.error().message;
    EXPECT_NE(pickle.error().message.find("at byte "), std::string::npos);
  }
}

TEST(Pickle, SharingAndCyclesEndTheWalk) {
  const auto itself = parse_pickle(file("fuzz/corpus/pickle/itself"));
  ASSERT_TRUE(itself) << itself.error().message;
  EXPECT_FALSE(token_rows(*itself));
  const auto laughs = parse_pickle(file("fuzz/corpus/pickle/laughs"));
  ASSERT_TRUE(laughs) << laughs.error().message;
  EXPECT_FALSE(token_rows(*laughs));
}

TEST(Pickle, AnyCutIsBroken) {
  const std::string whole = file("golden/bench/prompts_p4.pkl");
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_FALSE(parse_pickle(std::string_view(whole).substr(0, cut))) << cut;
  EXPECT_FALSE(
      parse_pickle("]K\x01"
                   "a"));                     // no STOP
  EXPECT_FALSE(parse_pickle("K\x01K\x02."));  // two values
  EXPECT_FALSE(parse_pickle("a."));           // nothing to append
  EXPECT_FALSE(
      parse_pickle("K\x01K\x02"
                   "a."));  // not a list
  EXPECT_FALSE(
      parse_pickle("](K\x01"
                   "0"
                   "0"
                   "."));                // pops below its mark
  EXPECT_FALSE(parse_pickle("h\x05."));  // empty memo
  EXPECT_FALSE(parse_pickle("\xff."));
  EXPECT_FALSE(token_rows(*parse_pickle("K\x01.")));
  EXPECT_FALSE(
      token_rows(*parse_pickle("](J\xff\xff\xff\xfft"
                               "a.")));  // a negative id
}

}  // namespace
}  // namespace saccade::bench
