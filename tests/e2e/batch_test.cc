// saccade batch: files of requests through the real binary, ended by kill -9, by Ctrl-C and by
// mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/text/base64.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/command.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;
using Lines = std::vector<std::string>;

const std::string kImage = SACCADE_SOURCE_DIR "/tests/golden/qwen2_vl/images/small.png";

void write(const std::string& path, const Lines& lines) {
  std::ofstream file(path, std::ios::binary);
  for (const std::string& line : lines) file << line << '\n';
}

std::string asked(const std::string& id, const std::string& url, const std::string& body) {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":")" + url + R"(","body":)" + body +
         "}";
}

std::string chat(const std::string& id, const std::string& words, int tokens = 6) {
  return asked(id, "/v1/chat/completions",
               R"({"model":"m","temperature":0,"max_tokens":)" + std::to_string(tokens) +
                   R"(,"ignore_eos":true,"messages":[{"role":"user","content":")" + words +
                   R"("}]})");
}

// Lines of an output by custom_id, or by id where there is none. A test fails where one is there
// twice.
std::map<std::string, json::object> answers(const std::string& path) {
  std::map<std::string, json::object> found;
  std::istringstream file(read_file(path));
  for (std::string line; std::getline(file, line);) {
    auto parsed = json::parse(line, 256);
    EXPECT_TRUE(parsed) << line;
    if (!parsed) continue;
    const json::object& object = parsed->get_object();
    const json::value* const id = json::find(object, "custom_id");
    const std::string key(id != nullptr ? id->as_string() : object.at("id").as_string());
    EXPECT_TRUE(found.emplace(key, object).second) << key << " is there twice";
  }
  return found;
}

std::int64_t status(const json::object& answer) {
  return answer.at("response").at("status_code").as_int64();
}

std::string content(const json::object& answer) {
  return std::string(
      answer.at("response").at("body").at("choices").at(0).at("message").at("content").as_string());
}

class Batch : public testing::Test {
 protected:
  Lines words(const Lines& more = {}, const std::string& model = kGlimpse) const {
    Lines all = {
        "batch", input_,           "-o", output_,   "--model", model, "--served-model-name",
        "m",     "--max-num-seqs", "4",  "--dtype", "float32"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  CommandOutcome run(const Lines& more = {}, const std::string& model = kGlimpse) const {
    return run_command(SACCADE_BINARY, words(more, model));
  }
  // Until so many lines are in the output.
  void await_lines(const Command& command, std::size_t count) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (std::ranges::count(read_file(output_), '\n') < static_cast<std::ptrdiff_t>(count)) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << command.err();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  TemporaryDirectory folder_;
  std::string input_ = folder_ / "in.jsonl";
  std::string output_ = folder_ / "out.jsonl";
};

TEST_F(Batch, EveryEndpointAnswers) {
  const std::string picture = base64_encode(read_file(kImage));
  write(
      input_,
      {chat("text", "Hi"),
       asked("image", "/v1/chat/completions",
             R"({"model":"m","temperature":0,"max_tokens":4,"messages":[{"role":"user","content":)"
             R"([{"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
                 picture + R"("}}]}]})"),
       asked("completion", "/v1/completions",
             R"({"model":"m","temperature":0,"max_tokens":4,"prompt":"One"})"),
       "",
       asked("response", "/v1/responses",
             R"({"model":"m","temperature":0,"max_output_tokens":4,"input":"Hi"})"),
       asked("elsewhere", "/v1/nothing", "{}"),
       asked("other", "/v1/chat/completions",
             R"({"model":"x","messages":[{"role":"user","content":"Hi"}]})"),
       chat("text", "again"), "{\"torn\": ", chat("wrong", "Hi", -4)});
  const CommandOutcome ended = run();
  EXPECT_EQ(ended.exit_code, 1) << ended.err;  // some are errors
  EXPECT_THAT(ended.err, HasSubstr("9 of 9 lines answered, 0 of them before, 5 with an error"));
  auto found = answers(output_);
  ASSERT_EQ(found.size(), 9u);
  for (const char* id : {"text", "image", "completion", "response"})
    EXPECT_EQ(status(found.at(id)), 200) << id;
  EXPECT_TRUE(found.at("text").at("error").is_null());
  EXPECT_GT(found.at("image")
                .at("response")
                .at("body")
                .at("usage")
                .at("prompt_tokens_details")
                .at("image_tokens")
                .as_int64(),
            0);
  EXPECT_EQ(found.at("response").at("response").at("body").at("object").as_string(), "response");
  EXPECT_EQ(status(found.at("elsewhere")), 404);
  EXPECT_EQ(status(found.at("other")), 404);
  EXPECT_EQ(status(found.at("wrong")), 400);
  EXPECT_THAT(
      std::string(
          found.at("wrong").at("response").at("body").at("error").at("message").as_string()),
      HasSubstr("max_tokens"));
  EXPECT_EQ(found.at("batch_req_000008").at("error").at("code").as_string(), "duplicate_custom_id");
  EXPECT_EQ(found.at("batch_req_000009").at("error").at("code").as_string(), "invalid_json_line");

  // Nothing is asked again, and nothing changes.
  const std::string before = read_file(output_);
  const CommandOutcome again = run();
  EXPECT_THAT(again.err, HasSubstr("9 of 9 lines answered, 9 of them before, 5 with an error"));
  EXPECT_EQ(read_file(output_), before);
}

TEST_F(Batch, EmbeddingsScoresAndRanks) {
  write(input_, {asked("e", "/v1/embeddings", R"({"model":"m","input":["a","b"]})"),
                 asked("s", "/v1/score", R"({"model":"m","text_1":"a","text_2":["a","b"]})"),
                 asked("r", "/v1/rerank", R"({"model":"m","query":"a","documents":["b","a"]})"),
                 asked("c", "/v1/chat/completions", R"({"model":"m","messages":[]})")});
  const CommandOutcome ended = run({}, kSentenceEncoder);
  EXPECT_EQ(ended.exit_code, 1) << ended.err;
  const auto found = answers(output_);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found.at("e").at("response").at("body").at("data").as_array().size(), 2u);
  EXPECT_EQ(found.at("s").at("response").at("body").at("data").as_array().size(), 2u);
  EXPECT_EQ(found.at("r").at("response").at("body").at("results").at(0).at("index").as_int64(), 1);
  EXPECT_EQ(status(found.at("c")), 400);
}

TEST_F(Batch, GoesOnWhereItWasKilled) {
  Lines lines;
  for (int i = 0; i < 48; ++i)
    lines.push_back(chat(std::to_string(i), "Number " + std::to_string(i)));
  write(input_, lines);
  const std::string whole = folder_ / "whole.jsonl";
  const CommandOutcome reference =
      run_command(SACCADE_BINARY, {"batch", input_, "-o", whole, "--model", kGlimpse,
                                   "--served-model-name", "m", "--dtype", "float32"});
  ASSERT_EQ(reference.exit_code, 0) << reference.err;
  const auto expected = answers(whole);
  ASSERT_EQ(expected.size(), lines.size());

  std::string kept;
  for (const std::size_t least : {3, 20}) {
    Command command(SACCADE_BINARY, words());
    await_lines(command, least);
    command.signal(SIGKILL);
    EXPECT_EQ(command.wait().exit_code, 128 + SIGKILL);
    // What a write that did not end leaves.
    std::ofstream(output_, std::ios::app) << R"({"id":"batch_req_000099","custom_id":"4)";
    const std::string now = read_file(output_);
    EXPECT_TRUE(now.starts_with(kept));
    kept = now.substr(0, now.rfind('\n') + 1);
  }
  const CommandOutcome ended = run();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_TRUE(read_file(output_).starts_with(kept));
  const auto found = answers(output_);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [id, answer] : expected) EXPECT_EQ(content(found.at(id)), content(answer)) << id;
}

TEST_F(Batch, CtrlCWritesWhatIsDone) {
  Lines lines;
  for (int i = 0; i < 200; ++i) lines.push_back(chat(std::to_string(i), "Number", 40));
  write(input_, lines);
  for (const char* drain : {"60", "0"}) {
    Command command(SACCADE_BINARY, words({"--drain-seconds", drain}));
    await_lines(command, answers(output_).size() + 2);
    command.signal(SIGINT);
    const CommandOutcome ended = command.wait();
    EXPECT_EQ(ended.exit_code, 130) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("interrupted: the same command goes on"));
    EXPECT_TRUE(read_file(output_).ends_with("\n"));
    const auto found = answers(output_);
    EXPECT_LT(found.size(), lines.size());
    for (const auto& [id, answer] : found) EXPECT_EQ(status(answer), 200) << id;
  }
}

TEST_F(Batch, LinesWaitForRoom) {
  Lines lines;
  for (int i = 0; i < 12; ++i)
    lines.push_back(asked(
        std::to_string(i), "/v1/completions",
        R"({"model":"m","max_tokens":1,"prompt":"x","user":")" + std::string(30'000, 'a') + "\"}"));
  lines.push_back(chat("too large", std::string(90'000, 'a')));
  write(input_, lines);
  const CommandOutcome ended = run({"--max-preparing-bytes", "80000"});
  const auto found = answers(output_);
  ASSERT_EQ(found.size(), 13u) << ended.err;
  EXPECT_EQ(status(found.at("too large")), 503);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(status(found.at(std::to_string(i))), 200) << i;
}

TEST_F(Batch, MistakesAreSaid) {
  write(input_, {chat("a", "Hi")});
  std::ofstream(output_) << "notes of mine";
  CommandOutcome ended = run();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("out.jsonl line 1 is no answer of a batch"));
  EXPECT_EQ(read_file(output_), "notes of mine");

  ended =
      run_command(SACCADE_BINARY, {"batch", folder_ / "none", "-o", output_, "--model", kGlimpse});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("/none cannot be opened"));
  ended = run_command(SACCADE_BINARY, {"batch", input_, "--model", kGlimpse});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--output"));
}

TEST_F(Batch, VllmsSpellingStarts) {
  write(input_, {chat("a", "Hi")});
  const CommandOutcome ended =
      run_command(SACCADE_BINARY, {"run-batch", "-i", input_, "-o", output_, "--model", kGlimpse,
                                   "--served-model-name", "m", "--gpu-memory-utilization", "0.9"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(answers(output_).size(), 1u);
}

}  // namespace
}  // namespace saccade::test
