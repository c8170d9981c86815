// Starting `saccade serve` with flags, and asking it: for tests of what flags do.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"

namespace saccade::test {

using Arguments = std::vector<std::string>;

inline const std::string kGreedy =
    R"({"prompt": "one two", "max_tokens": 8, "temperature": 0, "ignore_eos": true})";

inline Arguments serve(Arguments flags) {
  flags.insert(flags.begin(), {"serve", "--model", kCheckpoint});
  return flags;
}

inline void expect_words(const std::string& text, const Arguments& words) {
  for (const auto& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

inline void expect_refused(const Arguments& arguments, const Arguments& words,
                           const Environment& environment = {}) {
  const Tried tried = start_or_end(SACCADE_BINARY, arguments, environment);
  EXPECT_FALSE(tried.started) << tried.ended.output;
  EXPECT_TRUE(tried.ended.status == 1 || tried.ended.status == 2) << tried.ended.output;
  expect_words(tried.ended.output, words);
}

inline json::object tree_of(const RawAnswer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  const auto tree = json::parse(answer.body);
  return tree && tree->is_object() ? tree->get_object() : json::object{};
}

inline std::string text_of(const RawAnswer& answer) {
  const json::object tree = tree_of(answer);
  const json::value* choices = json::find(tree, "choices");
  if (choices == nullptr) return {};
  return json::get_string(choices->at(0).get_object(), "text").value_or("");
}

inline std::int64_t completion_tokens(const RawAnswer& answer) {
  const json::object tree = tree_of(answer);
  const json::value* usage = json::find(tree, "usage");
  return usage == nullptr ? -1
                          : json::get_int(usage->get_object(), "completion_tokens").value_or(-1);
}

inline RawAnswer complete(const ServerProcess& server, const std::string& body = kGreedy,
                          const std::string& headers = "") {
  return exchange(server.port(), "POST", "/v1/completions", body, -1, headers);
}

// A folder of links to a checkpoint's files, but for those that begin with `without`.
inline void link_files(const std::string& from, const std::filesystem::path& to,
                       const std::string& without = "-") {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(without)) std::filesystem::create_symlink(entry.path(), to / name);
  }
}

}  // namespace saccade::test
