#include "bench/datasets/pickles/pickle.h"

#include <gtest/gtest.h>

#include "bench/datasets/pickles/pickle_array.h"
#include "bench/datasets/text_file.h"

namespace saccade::bench {
namespace {

std::string file(const std::string& path) {
  auto text = read_text_file(SACCADE_SOURCE_DIR "/tests/" + path);
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("");
}

TEST(Pickle, EveryProtocol) {
  for (int protocol = 0; protocol <= 5; ++protocol) {
    const auto pickle = parse_prompts(file(fmt::format("golden/bench/prompts_p{}.pkl", protocol)));
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

// A row may be an array, or have one beside a name and a number.
TEST(Pickle, ListsOfArrays) {
  for (const char* protocol : {"p2", "p4", "p5"}) {
    const auto pickle = parse_prompts(file(fmt::format("golden/bench/arrays_{}.pkl", protocol)));
    ASSERT_TRUE(pickle) << protocol << ": " << pickle.error().message;
    const auto rows = token_rows(*pickle);
    ASSERT_TRUE(rows) << protocol << ": " << rows.error().message;
    ASSERT_EQ(rows->size(), 5u);
    EXPECT_EQ((*rows)[0], (std::vector<std::int32_t>{1, 2, 3}));
    EXPECT_EQ((*rows)[1], (std::vector<std::int32_t>{4, 5, 70000}));
    EXPECT_EQ((*rows)[2], (std::vector<std::int32_t>{2147483647, 0}));
    EXPECT_EQ((*rows)[3].size(), 300u);
    EXPECT_EQ((*rows)[4], (std::vector<std::int32_t>{7, 8}));
  }
}

// pandas' own to_pickle(), of three major versions, and with columns' names in Arrow's strings.
TEST(Pickle, DataFrames) {
  for (const char* version : {"1.5", "2.2", "3.1", "3.1arrow"}) {
    for (const char* kind : {"lists_p2", "lists_p4", "lists_p5", "wide_p5", "filtered_p5",
                             "arrays_p2", "arrays_p4", "arrays_p5", "narrow_p5"}) {
      const std::string name = fmt::format("golden/bench/frame_{}_{}.pkl", version, kind);
      const auto pickle = parse_prompts(file(name));
      ASSERT_TRUE(pickle) << name << ": " << pickle.error().message;
      const auto rows = token_rows(*pickle, "tok_inputs");
      ASSERT_TRUE(rows) << name << ": " << rows.error().message;
      ASSERT_EQ(rows->size(), 4u) << name;
      EXPECT_EQ((*rows)[0], (std::vector<std::int32_t>{1, 2, 3})) << name;
      EXPECT_EQ((*rows)[1], (std::vector<std::int32_t>{4, 5, 70000})) << name;
      EXPECT_EQ((*rows)[2], (std::vector<std::int32_t>{2147483647, 0})) << name;
      ASSERT_EQ((*rows)[3].size(), 300u) << name;
      EXPECT_EQ((*rows)[3][299], 299) << name;
    }
    const auto wide =
        parse_prompts(file(fmt::format("golden/bench/frame_{}_wide_p5.pkl", version)));
    ASSERT_TRUE(wide);
    EXPECT_EQ(token_rows(*wide, "tok_outputs").value()[3], std::vector<std::int32_t>{9});
    const auto absent = token_rows(*wide, "ids");
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().message,
              "the DataFrame has no column 'ids', but text, tok_inputs, n, x, tok_outputs");
    for (const char* other : {"text", "n", "x"}) EXPECT_FALSE(token_rows(*wide, other)) << other;
    const auto words =
        parse_prompts(file(fmt::format("golden/bench/frame_{}_words_p5.pkl", version)));
    ASSERT_TRUE(words);
    EXPECT_FALSE(token_rows(*words));
  }
}

// Whatever is changed in a DataFrame's bytes, reading ends, in rows of ids or in an error.
TEST(Pickle, ChangedDataFramesAreReadOrRefused) {
  const std::string whole = file("golden/bench/frame_2.2_wide_p5.pkl");
  int read = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char put : {'\0', '0', 'R', 'b', '\x81', '\xFF', '}', 'u', ')'}) {
      std::string changed = whole;
      changed[at] = put;
      const auto pickle = parse_prompts(changed);
      if (!pickle) continue;
      const auto rows = token_rows(*pickle);
      if (!rows) continue;
      ++read;
      for (const auto& row : *rows)
        for (const std::int32_t id : row) EXPECT_GE(id, 0);
    }
    EXPECT_FALSE(parse_prompts(std::string_view(whole).substr(0, at))) << at;
  }
  EXPECT_GT(read, 0);
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
    const auto pickle = parse_prompts(file("fuzz/corpus/pickle/" + name));
    ASSERT_FALSE(pickle) << name;
    EXPECT_NE(pickle.error().message.find(expected), std::string::npos) << pickle.error().message;
    EXPECT_NE(pickle.error().message.find("at byte "), std::string::npos);
  }
}

TEST(Pickle, SharingAndCyclesEndTheWalk) {
  const auto itself = parse_prompts(file("fuzz/corpus/pickle/itself"));
  ASSERT_TRUE(itself) << itself.error().message;
  EXPECT_FALSE(token_rows(*itself));
  const auto laughs = parse_prompts(file("fuzz/corpus/pickle/laughs"));
  ASSERT_TRUE(laughs) << laughs.error().message;
  EXPECT_FALSE(token_rows(*laughs));
}

// A column's name in Arrow's strings, whose offsets are in bytearrays of bytearrays.
TEST(Pickle, NestedByteArraysAreUnpackedInALoop) {
  constexpr int kDeep = 250'000;  // 1 MB
  const auto buffer = [](const std::string& bytes) {
    return "cpyarrow.lib\npy_buffer\n" + bytes + "\x85R";
  };
  const std::string none(1, '\0');
  const std::string ends = "C\x08" + std::string(4, '\0') + "\x03" + std::string(3, '\0');
  std::string nest = "cbuiltins\nbytearray\nq" + none;
  for (int i = 1; i < kDeep; ++i) nest += "h" + none;
  nest += ends;
  for (int i = 0; i < kDeep; ++i) nest += "\x85R";
  const std::string type = "cpyarrow.lib\ntype_for_alias\n\x8c\x06string\x85R";
  const std::string bytes = "cpyarrow.lib\n_restore_array\n(" + type + "K\x01K" + none + "K" +
                            none + "(N" + buffer(nest) + buffer("C\x03ids") + "lt\x85R.";
  constexpr PickleRules kAnyClass{.knows_class = [](std::string_view) { return true; },
                                  .readable = "anything"};
  const auto pickle = parse_pickle(bytes, kAnyClass);
  ASSERT_TRUE(pickle) << pickle.error().message;
  const auto names = PickleObjects(*pickle).arrow_strings(pickle->root);
  ASSERT_TRUE(names);
  EXPECT_EQ(*names, std::vector<std::string>{"ids"});
}

TEST(Pickle, AnyCutIsBroken) {
  const std::string whole = file("golden/bench/prompts_p4.pkl");
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_FALSE(parse_prompts(std::string_view(whole).substr(0, cut))) << cut;
  EXPECT_FALSE(
      parse_prompts("]K\x01"
                    "a"));                     // no STOP
  EXPECT_FALSE(parse_prompts("K\x01K\x02."));  // two values
  EXPECT_FALSE(parse_prompts("a."));           // nothing to append
  EXPECT_FALSE(
      parse_prompts("K\x01K\x02"
                    "a."));  // not a list
  EXPECT_FALSE(
      parse_prompts("](K\x01"
                    "0"
                    "0"
                    "."));                // pops below its mark
  EXPECT_FALSE(parse_prompts("h\x05."));  // empty memo
  EXPECT_FALSE(parse_prompts("\xff."));
  EXPECT_FALSE(token_rows(*parse_prompts("K\x01.")));
  EXPECT_FALSE(
      token_rows(*parse_prompts("](J\xff\xff\xff\xfft"
                                "a.")));  // a negative id
}

}  // namespace
}  // namespace saccade::bench
