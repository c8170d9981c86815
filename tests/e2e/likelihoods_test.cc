// What the API of the real binary makes of likelihoods, with transformers' numbers
// (tests/golden/likelihoods.json): vLLM's prompt_logprobs, the echo of the older completions with
// them, and beam search.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/text/base64.h"
#include "model/golden.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"

namespace saccade::test {
namespace {

using namespace std::chrono_literals;

// What likelihoods.json has of a prompt.
json::value golden_of(const std::string& checkpoint, const std::string& name) {
  const auto tree = json::parse_file(kGoldens + "likelihoods.json");
  EXPECT_TRUE(tree);
  for (const json::value& prompt : tree->at("prompts").as_array()) {
    if (prompt.at("checkpoint").as_string() == std::string_view(checkpoint) &&
        prompt.at("case").as_string() == std::string_view(name))
      return prompt;
  }
  ADD_FAILURE() << checkpoint << " " << name;
  return {};
}

// vLLM's shape: null, then for each token an object by ids, the token itself first.
void expect_prompt_logprobs(const json::value& got, const json::value& golden) {
  const json::array& ids = golden.at("ids").as_array();
  const json::array& tokens = golden.at("tokens").as_array();
  ASSERT_TRUE(got.is_array());
  ASSERT_EQ(got.as_array().size(), ids.size());
  EXPECT_TRUE(got.as_array().front().is_null());
  for (std::size_t i = 1; i < ids.size(); ++i) {
    SCOPED_TRACE("token " + std::to_string(i));
    const json::object& entries = got.as_array()[i].as_object();
    const json::value& want = tokens[i - 1];
    const std::string own = std::to_string(ids[i].to_number<int>());
    EXPECT_EQ(entries.begin()->key(), own);
    EXPECT_NEAR(entries.at(own).at("logprob").to_number<double>(),
                want.at("logprob").to_number<double>(), 2e-3);
    EXPECT_EQ(entries.at(own).at("rank").to_number<int>(), want.at("rank").to_number<int>());
    EXPECT_TRUE(entries.at(own).at("decoded_token").is_string());
    const json::array& top = want.at("top").as_array();
    EXPECT_EQ(entries.size(),
              want.at("rank").to_number<std::size_t>() <= top.size() ? top.size() : top.size() + 1);
    for (std::size_t k = 0; k < top.size(); ++k) {
      const json::value& entry = entries.at(std::to_string(top[k].to_number<int>()));
      EXPECT_EQ(entry.at("rank").to_number<std::size_t>(), k + 1);
      EXPECT_NEAR(entry.at("logprob").to_number<double>(),
                  want.at("top_logprobs").as_array()[k].to_number<double>(), 2e-3);
    }
  }
}

class Likelihoods : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    text_ = started(kGoldens + "llama3/plain");
    vision_ = started(kCheckpoint);
  }
  static void TearDownTestSuite() {
    for (auto* server : {&text_, &vision_}) {
      EXPECT_EQ((*server)->stop(), 0) << (*server)->log();
      server->reset();
    }
  }
  static std::unique_ptr<ServerProcess> started(const std::string& checkpoint) {
    return std::make_unique<ServerProcess>(
        SACCADE_BINARY,
        std::vector<std::string>{"serve", "--model", checkpoint, "--dtype", "float32",
                                 "--served-model-name", "tiny", "--max-model-len", "512",
                                 "--max-num-batched-tokens", "32", "--max-num-seqs", "4"});
  }
  static RawAnswer complete(const std::string& members) {
    return exchange(text_->port(), "POST", "/v1/completions", "{" + members + "}");
  }
  static RawAnswer chat(const std::string& members) {
    return exchange(vision_->port(), "POST", "/v1/chat/completions", "{" + members + "}");
  }
  static std::string prompt_of(const json::value& golden) {
    return R"("prompt":)" + boost::json::serialize(golden.at("ids"));
  }

  static std::unique_ptr<ServerProcess> text_;
  static std::unique_ptr<ServerProcess> vision_;
};
std::unique_ptr<ServerProcess> Likelihoods::text_;
std::unique_ptr<ServerProcess> Likelihoods::vision_;

TEST_F(Likelihoods, CompletionsHaveThemInEachChoice) {
  for (const std::string name : {"text", "multi_turn"}) {
    SCOPED_TRACE(name);
    const json::value golden = golden_of("llama3/plain", name);
    // The second time the prompt is cached, and computed all the same.
    for (int round = 0; round < 2; ++round) {
      const auto response = complete(
          prompt_of(golden) + R"(,"prompt_logprobs":5,"max_tokens":2,"n":2,"temperature":0)");
      const json::value answer = parsed(response);
      ASSERT_EQ(answer.at("choices").as_array().size(), 2u);
      std::size_t entries = 0;
      for (const json::value& choice : answer.at("choices").as_array()) {
        expect_prompt_logprobs(choice.at("prompt_logprobs"), golden);
        for (const json::value& token : choice.at("prompt_logprobs").as_array())
          if (token.is_object()) entries += token.as_object().size();
      }
      // Each once: of two members of one name a parser sees the last alone.
      std::size_t written = 0;
      for (std::size_t at = 0; (at = response.body.find("decoded_token", at)) != std::string::npos;
           ++at)
        ++written;
      EXPECT_EQ(written, entries);
      EXPECT_EQ(answer.at("usage").at("prompt_tokens_details").at("cached_tokens"), 0);
    }
    const json::value plain =
        parsed(complete(prompt_of(golden) + R"(,"max_tokens":2,"temperature":0)"));
    EXPECT_TRUE(plain.at("choices").at(0).at("prompt_logprobs").is_null());
    EXPECT_GT(plain.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 0);
  }
}

// As lm-evaluation-harness asks: the prompt echoed with log-probabilities, and nothing generated.
TEST_F(Likelihoods, EchoGivesTheOlderShape) {
  const json::value golden = golden_of("llama3/plain", "text");
  const json::array& ids = golden.at("ids").as_array();
  const json::array& tokens = golden.at("tokens").as_array();
  for (const int generated : {0, 1, 4}) {
    SCOPED_TRACE(generated);
    const json::value answer = parsed(
        complete(prompt_of(golden) + R"(,"echo":true,"logprobs":5,"temperature":0,"max_tokens":)" +
                 std::to_string(generated)));
    const json::value& choice = answer.at("choices").as_array()[0];
    const json::object& logprobs = choice.at("logprobs").as_object();
    const auto list = [&](const char* name) -> const json::array& {
      return logprobs.at(name).as_array();
    };
    const std::size_t all = ids.size() + static_cast<std::size_t>(generated);
    for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
      EXPECT_EQ(list(name).size(), all) << name;
    EXPECT_TRUE(list("token_logprobs")[0].is_null());
    EXPECT_TRUE(list("top_logprobs")[0].is_null());
    EXPECT_EQ(list("text_offset")[0], 0);
    for (std::size_t i = 1; i < ids.size(); ++i) {
      SCOPED_TRACE("token " + std::to_string(i));
      const json::value& want = tokens[i - 1];
      const double own = list("token_logprobs")[i].to_number<double>();
      EXPECT_NEAR(own, want.at("logprob").to_number<double>(), 2e-3);
      double likeliest = -1e9;
      for (const auto& entry : list("top_logprobs")[i].as_object())
        likeliest = std::max(likeliest, entry.value().to_number<double>());
      EXPECT_NEAR(likeliest, want.at("top_logprobs").as_array()[0].to_number<double>(), 2e-3);
      EXPECT_GE(list("text_offset")[i].as_int64(), list("text_offset")[i - 1].as_int64());
    }
    EXPECT_EQ(answer.at("usage").at("completion_tokens"), generated);
    EXPECT_EQ(choice.at("finish_reason").as_string(), "length");
    // The text is the prompt's, and the answer's behind it.
    const json::value alone =
        parsed(complete(prompt_of(golden) + R"(,"temperature":0,"max_tokens":4)"));
    const json::value echoed =
        parsed(complete(prompt_of(golden) + R"(,"echo":true,"max_tokens":0)"));
    const std::string prompt(echoed.at("choices").as_array()[0].at("text").as_string());
    const std::string text(choice.at("text").as_string());
    EXPECT_FALSE(prompt.empty());
    EXPECT_TRUE(text.starts_with(prompt)) << text;
    if (generated == 0) {
      EXPECT_EQ(text, prompt);
    }
    if (generated == 4) {
      EXPECT_EQ(text,
                prompt + std::string(alone.at("choices").as_array()[0].at("text").as_string()));
    }
  }
}

TEST_F(Likelihoods, AStreamedEchoBringsThemWithItsFirstChunk) {
  const json::value golden = golden_of("llama3/plain", "text");
  const RawAnswer answer =
      complete(prompt_of(golden) +
               R"(,"echo":true,"logprobs":1,"max_tokens":3,"temperature":0,"stream":true)");
  ASSERT_EQ(answer.status, 200) << answer.body;
  std::vector<double> logprobs;
  std::size_t chunks = 0;
  for (std::size_t at = 0; (at = answer.body.find("data: {", at)) != std::string::npos; ++chunks) {
    const std::size_t end = answer.body.find('\n', at);
    const auto chunk = json::parse(answer.body.substr(at + 6, end - at - 6));
    ASSERT_TRUE(chunk);
    for (const json::value& each :
         chunk->at("choices").as_array()[0].at("logprobs").at("token_logprobs").as_array())
      logprobs.push_back(each.is_null() ? 1 : each.to_number<double>());
    at = end;
  }
  EXPECT_EQ(chunks, 3u);
  ASSERT_EQ(logprobs.size(), golden.at("ids").as_array().size() + 3);
  EXPECT_EQ(logprobs[0], 1);
  for (std::size_t i = 1; i < golden.at("ids").as_array().size(); ++i)
    EXPECT_NEAR(logprobs[i],
                golden.at("tokens").as_array()[i - 1].at("logprob").to_number<double>(), 2e-3);
}

// The messages of a golden with images, as a client sends them.
std::string messages_of(const std::string& name) {
  const auto golden = read_golden(kCheckpoint + "/golden/" + name + ".safetensors");
  EXPECT_TRUE(golden) << golden.error().message;
  json::array messages = golden->messages;
  std::size_t next = 0;
  for (json::value& message : messages) {
    for (json::value& part : message.at("content").as_array()) {
      if (part.at("type").as_string() != "image") continue;
      std::ifstream file(golden->images[next++].sources.front(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)), {});
      EXPECT_FALSE(bytes.empty());
      part = {{"type", "image_url"},
              {"image_url", {{"url", "data:image/png;base64," + base64_encode(bytes)}}}};
    }
  }
  return R"("messages":)" + boost::json::serialize(messages);
}

// Placeholders of images are tokens like others, as vLLM has them; a chat's stand beside its
// choices.
TEST_F(Likelihoods, ChatsWithImagesHaveThem) {
  for (const std::string name : {"one_image", "three_images"}) {
    SCOPED_TRACE(name);
    const json::value answer =
        parsed(chat(messages_of(name) + R"(,"prompt_logprobs":5,"max_tokens":2,"n":2)"));
    expect_prompt_logprobs(answer.at("prompt_logprobs"), golden_of("qwen2_vl/odd_heads", name));
    EXPECT_FALSE(answer.at("choices").as_array()[0].as_object().contains("prompt_logprobs"));
  }
}

TEST_F(Likelihoods, WhatCannotBeAnsweredIsRefusedByName) {
  const auto expect_refused = [](const RawAnswer& answer, const std::string& says) {
    EXPECT_EQ(answer.status, 400) << answer.body.substr(0, 300);
    EXPECT_NE(answer.body.find(says), std::string::npos) << answer.body.substr(0, 300);
  };
  const std::string prompt = R"("prompt":"a b c","max_tokens":1,)";
  expect_refused(complete(prompt + R"("prompt_logprobs":21)"), "limit is 20 (--max-logprobs)");
  expect_refused(complete(prompt + R"("prompt_logprobs":-1)"), "limit is 20 (--max-logprobs)");
  expect_refused(complete(prompt + R"("prompt_logprobs":-2)"), "prompt_logprobs");
  expect_refused(complete(prompt + R"("prompt_logprobs":1,"stream":true)"), "whole answers alone");
  expect_refused(complete(R"("prompt":"a","max_tokens":0)"), "'echo' is not true");
  const std::string words = "a " + std::string(1200, 'b');
  std::string many;
  for (int i = 0; i < 8; ++i) many += (i > 0 ? R"(,")" : R"(")") + words + R"(")";
  expect_refused(
      complete(R"("prompt":[)" + many +
               R"(],"truncate_prompt_tokens":500,"max_tokens":1,"n":64,"prompt_logprobs":20)"),
      "the limit is 1048576");
  for (const auto& [path, question] :
       {std::pair("/v1/responses", R"({"input":"a","max_output_tokens":1)"),
        std::pair("/v1/messages", R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1)")})
    expect_refused(
        exchange(text_->port(), "POST", path, std::string(question) + R"(,"prompt_logprobs":0})"),
        "prompt_logprobs");
}

// --- beam search ---

std::string members_of(const json::value& beams) {
  return R"(,"use_beam_search":true,"return_token_ids":true,"n":)" +
         boost::json::serialize(beams.at("width")) + R"(,"max_tokens":)" +
         boost::json::serialize(beams.at("max_tokens")) + R"(,"length_penalty":)" +
         boost::json::serialize(beams.at("length_penalty"));
}

void expect_best(const json::value& answer, const json::value& beams, std::size_t given) {
  const json::array& choices = answer.at("choices").as_array();
  const json::array& best = beams.at("best").as_array();
  ASSERT_EQ(choices.size(), given);
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < given; ++i) {
    SCOPED_TRACE("beam " + std::to_string(i));
    EXPECT_EQ(choices[i].at("token_ids"), best[i].at("tokens"));
    EXPECT_EQ(choices[i].at("finish_reason"), best[i].at("finish_reason"));
    tokens += best[i].at("tokens").as_array().size();
  }
  EXPECT_EQ(answer.at("usage").at("completion_tokens").to_number<std::size_t>(), tokens);
}

TEST_F(Likelihoods, BeamsAreVllmsOverTransformersNumbers) {
  std::size_t searched = 0;
  for (const std::string name : {"text", "multi_turn"}) {
    const json::value golden = golden_of("llama3/plain", name);
    for (const json::value& beams : golden.at("beams").as_array()) {
      SCOPED_TRACE(name + " " + boost::json::serialize(beams));
      const std::string ask = prompt_of(golden) + members_of(beams);
      const json::value answer = parsed(complete(ask + R"(,"logprobs":0,"temperature":1.7)"));
      expect_best(answer, beams, beams.at("width").to_number<std::size_t>());
      // What ended an answer is in its sum and not in its tokens.
      const json::value& first = answer.at("choices").as_array()[0];
      double sum = 0;
      for (const json::value& each : first.at("logprobs").at("token_logprobs").as_array())
        sum += each.to_number<double>();
      const double whole = beams.at("best").as_array()[0].at("logprob").to_number<double>();
      if (first.at("finish_reason").as_string() == "length") {
        EXPECT_NEAR(sum, whole, 1e-2);
      } else {
        EXPECT_GT(sum, whole);
      }
      ++searched;
    }
  }
  EXPECT_GE(searched, 5u);
}

TEST_F(Likelihoods, BeamsOfChatsWithImages) {
  std::size_t searched = 0;
  for (const std::string name : {"one_image", "three_images"}) {
    const json::value golden = golden_of("qwen2_vl/odd_heads", name);
    for (const json::value& beams : golden.at("beams").as_array()) {
      SCOPED_TRACE(name + " " + boost::json::serialize(beams));
      expect_best(parsed(chat(messages_of(name) + members_of(beams))), beams,
                  beams.at("width").to_number<std::size_t>());
      ++searched;
    }
  }
  EXPECT_GE(searched, 2u);
}

// best_of is the width where fewer are wanted; a stream has each beam whole, at the end; prompts
// are searched side by side.
TEST_F(Likelihoods, BeamsInOtherForms) {
  const json::value golden = golden_of("llama3/plain", "text");
  const json::value beams = golden.at("beams").as_array()[1];
  std::string members = members_of(beams);
  const std::size_t width = members.find(R"("n":)");
  members.replace(width, 3, R"("n":1,"best_of")");
  const std::string ids = boost::json::serialize(golden.at("ids"));
  expect_best(parsed(complete(R"("prompt":)" + ids + members)), beams, 1);
  const json::value both = parsed(complete(R"("prompt":[)" + ids + "," + ids + "]" + members));
  ASSERT_EQ(both.at("choices").as_array().size(), 2u);
  EXPECT_EQ(both.at("choices").as_array()[0].at("token_ids"),
            both.at("choices").as_array()[1].at("token_ids"));
  const RawAnswer stream = complete(prompt_of(golden) + members_of(beams) + R"(,"stream":true)");
  EXPECT_EQ(stream.status, 200);
  EXPECT_NE(stream.body.find("data: [DONE]"), std::string::npos);
  for (const json::value& best : beams.at("best").as_array()) {
    EXPECT_NE(stream.body.find(R"("token_ids":)" + boost::json::serialize(best.at("tokens"))),
              std::string::npos);
  }
  const RawAnswer wide = complete(R"("prompt":"a","max_tokens":1,"n":11,"use_beam_search":true)");
  EXPECT_EQ(wide.status, 400);
  EXPECT_NE(wide.body.find("11 beams take 22 log-probabilities"), std::string::npos) << wide.body;
}

// A search is admitted with its first step: one that is under way is not ended by a queue that its
// own beams, or others, fill.
TEST(BeamSearch, IsAdmittedOnce) {
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGoldens + "llama3/plain", "--dtype",
                                        "float32", "--max-waiting", "1", "--max-num-seqs", "1"});
  const json::value golden = golden_of("llama3/plain", "text");
  const json::value beams = golden.at("beams").as_array()[1];
  ASSERT_GT(beams.at("width").to_number<int>(), 2);
  std::string members = members_of(beams);
  members.replace(members.find(R"("n":)"), 3, R"("n":1,"best_of")");
  const std::string ask =
      R"({"prompt":)" + boost::json::serialize(golden.at("ids")) + members + "}";
  expect_best(parsed(exchange(server.port(), "POST", "/v1/completions", ask)), beams, 1);
  // Others find the queue full meanwhile, as they should; the search goes on.
  std::atomic<bool> over{false};
  std::atomic<int> refused{0};
  std::thread others([&] {
    while (!over) {
      const RawAnswer other = exchange(server.port(), "POST", "/v1/completions",
                                       R"({"prompt":"a","max_tokens":4,"ignore_eos":true})");
      if (other.status == 429) ++refused;
    }
  });
  int searched = 0;
  const auto begun = std::chrono::steady_clock::now();
  // The others may win every time for a while, so the end is a search's, or a minute's.
  for (int i = 0; i < 12 || (searched == 0 && std::chrono::steady_clock::now() - begun < 60s);
       ++i) {
    const RawAnswer answer = exchange(server.port(), "POST", "/v1/completions", ask);
    if (answer.status == 429) continue;  // its first step found the queue full
    expect_best(parsed(answer), beams, 1);
    ++searched;
  }
  over = true;
  others.join();
  EXPECT_GE(searched, 1);
  EXPECT_EQ(server.stop(), 0) << server.log();
}

}  // namespace
}  // namespace saccade::test
