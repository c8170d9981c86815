// What end-to-end tests serve, and how they read what is answered.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/json.h"
#include "tests/support/server_process.h"

namespace saccade::test {

inline const std::string kGoldens = std::string(SACCADE_SOURCE_DIR) + "/tests/golden/";
inline const std::string kCheckpoint = kGoldens + "qwen2_vl/odd_heads";
inline const std::string kSentenceEncoder = kGoldens + "minilm/mean_short";
inline const std::string kGlimpse = std::string(SACCADE_SOURCE_DIR) + "/models/glimpse";
// Pictures of several sizes, by the names that goldens know them by.
inline const std::string kPictures = kGoldens + "qwen2_5_vl/images";

// The JSON of an answer of status 200.
inline json::value parsed(const RawAnswer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body.substr(0, 500);
  auto tree = json::parse(answer.body);
  EXPECT_TRUE(tree) << answer.body.substr(0, 500);
  return tree ? *std::move(tree) : json::value(json::object{});
}

// The first number of that name on the metrics page, with the labels that are said; -1: none.
inline double metric(std::uint16_t port, const std::string& name) {
  const std::string page = exchange(port, "GET", "/metrics", "").body;
  std::size_t at = 0;
  while ((at = page.find("\n" + name, at)) != std::string::npos) {
    at += 1 + name.size();
    const char next = page.at(at);
    if (next != '{' && next != ' ') continue;  // a longer name
    if (next == '{') at = page.find("} ", at) + 1;
    return std::strtod(page.c_str() + at, nullptr);
  }
  return -1;
}

}  // namespace saccade::test
