#include "bench/datasets/python_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/json.h"

namespace saccade::bench {
namespace {

json::value golden() {
  auto parsed = json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/bench/python_random.json");
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? *parsed : json::value(json::object());
}

double exactly(const json::value& hexadecimal) {
  return std::strtod(hexadecimal.as_string().c_str(), nullptr);
}

TEST(PythonRandom, DrawsAsCPython) {
  const json::value file = golden();
  for (const json::value& want : file.at("draws").as_array()) {
    const std::string seed(want.at("seed").as_string());
    PythonRandom random(std::stoull(seed));
    for (const json::value& v : want.at("random").as_array())
      EXPECT_EQ(random.random(), exactly(v)) << seed;
    for (const json::value& v : want.at("randint").as_array())
      EXPECT_EQ(random.randint(v.at(0).as_int64(), v.at(1).as_int64()), v.at(2).as_int64()) << seed;
    for (const json::value& v : want.at("bits").as_array())
      EXPECT_EQ(random.bits(static_cast<int>(v.at(0).as_int64())),
                std::stoull(std::string(v.at(1).as_string())))
          << seed;
    for (const json::value& v : want.at("choices").as_array())
      EXPECT_EQ(random.choice_with_replacement(static_cast<std::size_t>(v.at(0).as_int64())),
                static_cast<std::size_t>(v.at(1).as_int64()))
          << seed;
    std::vector<int> items(50);
    std::iota(items.begin(), items.end(), 0);
    random.shuffle(items);
    const json::array& order = want.at("shuffle").as_array();
    for (std::size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i], order[i].as_int64()) << seed;
    for (int i = 0; i < 700; ++i) random.random();
    EXPECT_EQ(random.random(), exactly(want.at("late"))) << seed;
  }
}

// The response lengths of DashInfer's script at its defaults, and its figures over 100 requests.
TEST(PythonRandom, DashInferLengths) {
  const std::vector<std::int64_t> first = {117, 101, 142, 136, 90,  113, 90,  109, 121, 138,
                                           101, 108, 115, 121, 121, 118, 133, 111, 106, 128};
  PythonRandom random(0xCADE);
  std::vector<std::int64_t> lengths(100);
  for (auto& length : lengths) length = random.randint(120 - 64 / 2, 120 + 64 / 2);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), lengths.begin()));
  EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), 12'090);
  EXPECT_EQ(*std::min_element(lengths.begin(), lengths.end()), 88);
  EXPECT_EQ(*std::max_element(lengths.begin(), lengths.end()), 151);
  const json::value file = golden();
  for (std::size_t i = 0; i < lengths.size(); ++i)
    EXPECT_EQ(lengths[i], file.at("response_lengths").at(i).as_int64());
}

TEST(PythonRandom, RowPerRequestSeed) {
  const std::vector<double> want = {0.84442, 0.13436, 0.95603, 0.23796, 0.23605};
  for (std::uint64_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(PythonRandom(i).random(), want[i], 1e-5);
}

}  // namespace
}  // namespace saccade::bench
