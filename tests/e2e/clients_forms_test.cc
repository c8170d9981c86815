// Requests in the forms that clients send and other servers take: each is answered, and means what
// it means there.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "base/json.h"
#include "base/text/base64.h"
#include "tests/e2e/checkpoints.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_directory.h"

namespace saccade::test {
namespace {

std::string wide_picture() {
  std::ifstream file(std::string(SACCADE_SOURCE_DIR) + "/tests/golden/qwen2_vl/images/wide.png",
                     std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(bytes.empty());
  return base64_encode(bytes);
}

class ClientForms : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ =
        new ServerProcess(SACCADE_BINARY, {"serve", "--model", kGlimpse, "--dtype", "float32"});
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->stop(), 0) << server_->log();
    delete server_;
  }

  static RawAnswer post(const std::string& path, const std::string& body) {
    return exchange(server_->port(), "POST", path, body);
  }
  static json::value must(const std::string& path, const std::string& body) {
    const RawAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, 200) << path << " " << body.substr(0, 300) << ": " << answer.body;
    auto tree = json::parse(answer.body);
    return tree ? *std::move(tree) : json::value();
  }
  static std::string user(const std::string& content, const std::string& more) {
    return R"({"messages": [{"role": "user", "content": )" + content + "}]" + more + "}";
  }
  // The prompt that messages become.
  static std::string prompt_of(const std::string& messages, const std::string& more = "") {
    const json::value tokens =
        must("/tokenize", R"({"return_token_strs": true, "messages": )" + messages + more + "}");
    std::string text;
    for (const json::value& piece : tokens.at("token_strs").as_array())
      text += std::string_view(piece.as_string());
    return text;
  }

  static ServerProcess* server_;
};
ServerProcess* ClientForms::server_ = nullptr;

TEST_F(ClientForms, AMessageIsContinuedBehindItsText) {
  const std::string before =
      R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": )";
  const std::string more = R"(, "continue_final_message": true, "add_generation_prompt": false)";
  for (const std::string text : {"|", "<", ">", "end", "OK! ", "a"}) {
    const std::string prompt = prompt_of(before + '"' + text + "\"}]", more);
    EXPECT_TRUE(prompt.ends_with(text)) << prompt;
    EXPECT_EQ(prompt.find(text + "<|"), std::string::npos) << prompt;
  }
}

TEST_F(ClientForms, ADevelopersMessageAndAClientsHistory) {
  const std::string prompt = prompt_of(
      R"([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}])");
  EXPECT_NE(prompt.find("Be brief."), std::string::npos);
  must("/v1/chat/completions", R"({"max_tokens": 2, "messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b", "refusal": null, "annotations": null, "audio": null,
       "function_call": null, "tool_calls": null}, {"role": "user", "content": "c"}]})");
}

TEST_F(ClientForms, ImagesAsClientsWriteThem) {
  const std::string base64 = wide_picture();
  std::string lines;
  for (std::size_t i = 0; i < base64.size(); i += 76) lines += base64.substr(i, 76) + "\\n";
  std::string bare = base64;
  while (bare.ends_with('=')) bare.pop_back();
  std::string safe = bare;
  for (char& c : safe) c = c == '+' ? '-' : c == '/' ? '_' : c;
  const auto said = [&](const std::string& url) {
    const json::value answer =
        must("/v1/chat/completions",
             user(R"([{"type": "image_url", "image_url": {"url": ")" + url +
                      R"(", "detail": "original"}}, {"type": "text", "text": "What?"}])",
                  R"(, "max_tokens": 4, "temperature": 0)"));
    return boost::json::serialize(answer.at("choices").at(0).at("message"));
  };
  const std::string usual = said("data:image/png;base64," + base64);
  for (const std::string& url :
       {"data:image/png;base64," + lines, "data:image/png;base64," + bare,
        "data:image/png;BASE64," + safe, "data:image/png; base64," + base64,
        " \\n\\tdata:image/png;base64," + base64 + "\\r\\n ", "\\u0000data:;base64," + base64})
    EXPECT_EQ(said(url), usual) << url.substr(0, 60);
  const RawAnswer wrong = post("/v1/chat/completions", user(R"([{"type": "image_url", "image_url":
                                        {"url": "data:image/png;base64,iVBO!w0K"}}])",
                                                            ""));
  EXPECT_EQ(wrong.status, 422);
  EXPECT_NE(wrong.body.find("'!' at offset 4"), std::string::npos) << wrong.body;
}

TEST_F(ClientForms, MoreTokensThanThereIsRoomForAreWhatThereIsRoomFor) {
  const json::value models = must("/v1/chat/completions", user("\"hi\"", R"(, "max_tokens": 1)"));
  EXPECT_EQ(models.at("usage").at("completion_tokens"), 1);
  const std::string card = exchange(server_->port(), "GET", "/v1/models", "").body;
  const std::int64_t most = json::parse(card)->at("data").at(0).at("max_model_len").as_int64();
  const auto asked = [&](std::int64_t tokens) {
    return post("/v1/completions",
                R"({"prompt": "a", "stop": ["e", "a", "o", " "], "max_tokens": )" +
                    std::to_string(tokens) + "}")
        .status;
  };
  EXPECT_EQ(asked(most), 200);
  EXPECT_EQ(asked(most + 1), 400);
  // The member is named that was sent.
  const auto expect_named = [&](const std::string& path, std::string body,
                                const std::string& name) {
    body.insert(body.size() - 1, ", \"" + name + "\": " + std::to_string(most + 1));
    const RawAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find('\'' + name + "' is too large"), std::string::npos) << answer.body;
    if (path == "/v1/messages") return;  // whose errors name nothing beside their text
    EXPECT_EQ(json::parse(answer.body)->at("error").at("param").as_string(), name);
  };
  expect_named("/v1/responses", R"({"input": "hi"})", "max_output_tokens");
  expect_named("/v1/chat/completions", user("\"hi\"", ""), "max_completion_tokens");
  expect_named("/v1/chat/completions", user("\"hi\"", ""), "max_tokens");
  expect_named("/v1/completions", R"({"prompt": "a"})", "max_tokens");
  expect_named("/v1/messages", user("\"hi\"", ""), "max_tokens");
}

TEST_F(ClientForms, ThePromptIsGivenBack) {
  const json::value chat = must(
      "/v1/chat/completions",
      user("\"hi\"", R"(, "max_tokens": 2, "return_token_ids": true, "return_prompt_text": true)"));
  EXPECT_EQ(chat.at("prompt_token_ids").as_array().size(),
            chat.at("usage").at("prompt_tokens").to_number<std::size_t>());
  EXPECT_NE(chat.at("prompt_text").as_string().find("hi"), std::string::npos);
  EXPECT_TRUE(chat.at("prompt_logprobs").is_null());
  const json::value text =
      must("/completions", R"({"prompt": ["ab", "c"], "max_tokens": 1, "return_token_ids": true})");
  EXPECT_EQ(text.at("choices").at(1).at("prompt_token_ids").as_array().size(),
            must("/tokenize", R"({"prompt": "c"})").at("tokens").as_array().size());
  const std::string events =
      post("/v1/chat/completions",
           user("\"hi\"", R"(, "max_tokens": 3, "stream": true, "return_token_ids": true)"))
          .body;
  const std::size_t first = events.find("prompt_token_ids");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(events.find("prompt_token_ids", first + 1), std::string::npos);
}

TEST_F(ClientForms, APromptIsCutAtTheSideThatIsAskedFor) {
  const auto kept = [&](const std::string& side) {
    return must("/completions",
                R"({"prompt": [5, 6, 7, 8, 9], "max_tokens": 1, "return_token_ids": true,
                    "truncate_prompt_tokens": 2)" +
                    side + "}")
        .at("choices")
        .at(0)
        .at("prompt_token_ids");
  };
  EXPECT_EQ(kept(R"(, "truncation_side": "right")"), (json::array{5, 6}));
  EXPECT_EQ(kept(R"(, "truncation_side": "left")"), (json::array{8, 9}));
  EXPECT_EQ(kept(""), (json::array{8, 9}));
  const json::value chat = must(
      "/v1/chat/completions",
      user("\"hi\"", R"(, "max_tokens": 1, "return_token_ids": true, "truncate_prompt_tokens": 3,
                        "truncation_side": "right")"));
  const json::value whole = must("/v1/chat/completions",
                                 user("\"hi\"", R"(, "max_tokens": 1, "return_token_ids": true)"));
  const json::array& all = whole.at("prompt_token_ids").as_array();
  EXPECT_EQ(chat.at("prompt_token_ids"), json::array(all.begin(), all.begin() + 3));
}

TEST_F(ClientForms, AnAnswerEchoesItsAuthorsWords) {
  const json::value chat = must("/v1/chat/completions",
                                R"({"max_tokens": 2, "echo": true, "continue_final_message": true,
               "add_generation_prompt": false, "messages": [{"role": "user", "content": "a"},
               {"role": "assistant", "content": "Well, "}]})");
  EXPECT_TRUE(
      chat.at("choices").at(0).at("message").at("content").as_string().starts_with("Well, "));
}

TEST_F(ClientForms, SchemasUnderOtherNames) {
  for (const char* member :
       {R"("response_format": {"type": "json_object", "schema": {"enum": [7]}})",
        R"("json_schema": {"enum": [7]})", R"("grammar": "root ::= \"7\"")", R"("regex": "7")"}) {
    const json::value answer = must("/v1/chat/completions",
                                    user("\"hi\"", std::string(R"(, "max_tokens": 4, )") + member));
    EXPECT_EQ(answer.at("choices").at(0).at("message").at("content"), "7") << member;
  }
}

TEST_F(ClientForms, OtherPaths) {
  must("/chat/completions", user("\"hi\"", R"(, "max_tokens": 1)"));
  must("/invocations", user("\"hi\"", R"(, "max_tokens": 1)"));
  must("/invocations", R"({"prompt": "hi", "max_tokens": 1})");
  const json::value counted = must("/v1/responses/input_tokens", R"({"input": "hi"})");
  EXPECT_EQ(counted.at("object"), "response.input_tokens");
  EXPECT_EQ(counted.at("input_tokens"),
            must("/v1/responses", R"({"input": "hi", "max_output_tokens": 1})")
                .at("usage")
                .at("input_tokens"));
  const RawAnswer other = exchange(server_->port(), "GET", "/v1/chat/completions", "");
  EXPECT_EQ(other.status, 405);
  EXPECT_NE(other.head.find("Allow: POST"), std::string::npos) << other.head;
  EXPECT_EQ(exchange(server_->port(), "GET", "/models", "").status, 200);
}

// vLLM's batch: each conversation's answer is what it would be by itself, in their order.
TEST_F(ClientForms, ConversationsInOneBody) {
  const std::string more = R"(, "max_tokens": 5, "temperature": 0, "ignore_eos": true)";
  const std::string picture_url = "data:image/png;base64," + wide_picture();
  const std::vector<std::string> contents = {
      "\"one\"", R"([{"type": "image_url", "image_url": {"url": ")" + picture_url + R"("}}])",
      "\"three, and some more words\""};
  std::string conversations;
  std::int64_t prompt_tokens = 0;
  std::vector<json::value> single;
  for (const std::string& content : contents) {
    const json::value answer = must("/v1/chat/completions", user(content, more));
    single.push_back(answer.at("choices").at(0).at("message"));
    prompt_tokens += answer.at("usage").at("prompt_tokens").as_int64();
    if (!conversations.empty()) conversations += ", ";
    conversations += R"([{"role": "user", "content": )" + content + "}]";
  }
  const std::string path = "/v1/chat/completions/batch";
  const json::value batch = must(path, R"({"messages": [)" + conversations + "]" + more + "}");
  EXPECT_EQ(batch.at("object"), "chat.completion");
  ASSERT_EQ(batch.at("choices").as_array().size(), single.size());
  for (std::size_t i = 0; i < single.size(); ++i) {
    EXPECT_EQ(batch.at("choices").at(i).at("index"), json::value(i));
    EXPECT_EQ(batch.at("choices").at(i).at("message"), single[i]) << i;
  }
  EXPECT_EQ(batch.at("usage").at("prompt_tokens"), json::value(prompt_tokens));
  EXPECT_EQ(batch.at("usage").at("completion_tokens"), json::value(15));

  const auto refused = [&](const std::string& body, const std::string& why) {
    const RawAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_NE(answer.body.find(why), std::string::npos) << answer.body;
  };
  const std::string hi = R"({"messages": [[{"role": "user", "content": "hi"}]])";
  refused(hi + R"(, "stream": true})", "'stream' is not supported in a batch");
  refused(hi + R"(, "n": 2})", "'n' must be 1 in a batch");
  refused(R"({"messages": []})", "'messages' is an empty list");
  refused(R"({"messages": [{"role": "user", "content": "hi"}]})", "messages[0] is an object");
  refused(R"({"messages": [[{"role": "user", "content": "hi"}], []]})", "messages[1]");
  refused(R"({"messages": "hi"})", "a list of conversations is required");
  std::string many = "[]";
  for (int i = 0; i < 1024; ++i) many += ",[]";
  refused(R"({"messages": [)" + many + "]}",
          "'messages' has 1025 conversations, 1024 are possible");
}

// Tokens that a client names are listed in place of the likeliest, with the same numbers.
TEST_F(ClientForms, LogProbabilitiesOfNamedTokens) {
  const std::string more =
      R"(, "max_tokens": 4, "temperature": 0, "ignore_eos": true, "logprobs": true,
         "return_tokens_as_token_ids": true)";
  const auto listed = [&](const std::string& rest) {
    return must("/v1/chat/completions", user("\"one two\"", more + rest))
        .at("choices")
        .at(0)
        .at("logprobs")
        .at("content")
        .as_array();
  };
  const json::array usual = listed(R"(, "top_logprobs": 12)");
  ASSERT_EQ(usual.size(), 4u);
  std::string ids;
  json::array wanted = usual.at(0).at("top_logprobs").as_array();
  std::reverse(wanted.begin(), wanted.end());
  for (const json::value& top : wanted) {
    const std::string name(top.at("token").as_string());
    ids += (ids.empty() ? "" : ", ") + name.substr(name.find(':') + 1);
  }
  const std::string again = ids.substr(0, ids.find(','));
  const json::array named = listed(R"(, "logprob_token_ids": [)" + ids + ", " + again + "]");
  ASSERT_EQ(named.size(), usual.size());
  EXPECT_EQ(named.at(0).at("top_logprobs"), wanted);
  for (std::size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ(named.at(i).at("token"), usual.at(i).at("token")) << i;
    EXPECT_EQ(named.at(i).at("logprob"), usual.at(i).at("logprob")) << i;
    EXPECT_EQ(named.at(i).at("top_logprobs").as_array().size(), wanted.size()) << i;
    for (const json::value& top : named.at(i).at("top_logprobs").as_array())
      for (const json::value& other : usual.at(i).at("top_logprobs").as_array()) {
        if (top.at("token") == other.at("token")) {
          EXPECT_EQ(top.at("logprob"), other.at("logprob"));
        }
      }
  }
  const json::value completion =
      must("/v1/completions",
           R"({"prompt": "one two", "logprobs": 1, "max_tokens": 2, "ignore_eos": true,
                                  "logprob_token_ids": [)" +
               ids + "]}");
  EXPECT_EQ(
      completion.at("choices").at(0).at("logprobs").at("top_logprobs").at(1).as_object().size(),
      wanted.size());

  const auto refused = [&](const std::string& rest, const std::string& why) {
    const RawAnswer answer = post("/v1/chat/completions", user("\"one\"", more + rest));
    EXPECT_EQ(answer.status, 400) << rest;
    EXPECT_NE(answer.body.find(why), std::string::npos) << answer.body;
  };
  refused(R"(, "logprob_token_ids": [1000000])", "logprob_token_ids names token 1000000");
  refused(R"(, "logprob_token_ids": [-1])", "logprob_token_ids names token -1");
  refused(R"(, "logprob_token_ids": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21])",
          "21 log-probabilities are asked for, the limit is 20");
  refused(R"(, "top_logprobs": -1)", "(--max-logprobs)");
}

// What llama-server's and vLLM's clients read before they ask anything.
TEST_F(ClientForms, PagesOfOtherServers) {
  const auto page = [](const std::string& path) {
    const RawAnswer answer = exchange(server_->port(), "GET", path, "");
    EXPECT_EQ(answer.status, 200) << path;
    return *json::parse(answer.body);
  };
  const json::value props = page("/props");
  EXPECT_EQ(props.at("default_generation_settings").at("n_ctx"), json::value(1024));
  EXPECT_EQ(props.at("modalities").at("vision"), json::value(true));
  EXPECT_NE(props.at("chat_template").as_string().find("messages"), std::string::npos);
  // An answer goes out before its request has left the engine.
  json::value slots = page("/slots");
  for (int look = 0; look < 200 && slots.at(0).at("is_processing").as_bool(); ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    slots = page("/slots");
  }
  EXPECT_EQ(json::value(slots.as_array().size()), props.at("total_slots"));
  EXPECT_EQ(slots.at(0).at("is_processing"), json::value(false));
  const json::value info = page("/tokenizer_info");
  EXPECT_EQ(info.at("chat_template"), props.at("chat_template"));
  EXPECT_TRUE(info.as_object().contains("tokenizer_class"));
}

// Another billing line in each request of Claude Code: the rest is found in the cache.
TEST_F(ClientForms, ABillingLineHidesNoPrefix) {
  std::string long_text;
  for (int i = 0; i < 60; ++i) long_text += "You are a helper. ";
  const auto cached = [&](const std::string& line) {
    return must("/v1/messages", R"({"max_tokens": 2, "system": [{"type": "text", "text":
        "x-anthropic-billing-header: cch=)" +
                                    line + R"(;"}, {"type": "text", "text": ")" + long_text +
                                    R"("}], "messages": [{"role": "user", "content": "hi"}]})")
        .at("usage")
        .at("cache_read_input_tokens")
        .to_number<std::int64_t>();
  };
  cached("aaa11");
  EXPECT_GT(cached("bbb22"), 100);
}

TEST_F(ClientForms, TheCachesConfigurationIsAMetric) {
  const std::string page = exchange(server_->port(), "GET", "/metrics", "").body;
  EXPECT_NE(page.find("vllm:cache_config_info{"), std::string::npos);
  EXPECT_NE(page.find("block_size=\"16\""), std::string::npos);
  EXPECT_EQ(page.find("num_gpu_blocks=\"0\""), std::string::npos);
  // Of vLLM 0.33: tokens that the cache holds, and how many of the longest requests that is.
  const auto label = [&](const std::string& name) {
    const std::size_t at = page.find(name + "=\"");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? 0 : std::stod(page.substr(at + name.size() + 2));
  };
  EXPECT_EQ(label("kv_cache_size_tokens"), 16 * label("num_gpu_blocks"));
  EXPECT_NEAR(label("kv_cache_max_concurrency"), label("kv_cache_size_tokens") / 1024, 0.01);
}

// vLLM's: answers that a request asks for, and how often each was preempted.
TEST_F(ClientForms, AnswersAndPreemptionsAreMetrics) {
  const auto value = [](std::string_view name) {
    const std::string page = exchange(server_->port(), "GET", "/metrics", "").body;
    const std::size_t at = page.find("\n" + std::string(name) + "{");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? -1.0 : std::stod(page.substr(page.find(' ', at + 1)));
  };
  const double answers = value("vllm:request_params_n_sum");
  const double requests = value("vllm:request_params_n_count");
  const double ended = value("vllm:request_num_preemptions_count");
  must("/v1/completions", R"({"prompt": ["a", "b"], "n": 3, "max_tokens": 2})");
  EXPECT_EQ(value("vllm:request_params_n_sum"), answers + 6);
  EXPECT_EQ(value("vllm:request_params_n_count"), requests + 2);
  EXPECT_EQ(value("vllm:request_num_preemptions_count"), ended + 6);
  EXPECT_EQ(value("vllm:request_num_preemptions_sum"), 0);
}

// Where the prompt opens a thought, all that this model says is one.
TEST(ClientThoughts, HaveBothNamesOrAreLeftOut) {
  TemporaryDirectory work;
  const std::string path = work / "thinking.jinja";
  std::ofstream(path) << "{% for m in messages %}{{ m.content }}{% endfor %}"
                         "{{ reasoning_effort or 'no' }} effort<think>\n";
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGlimpse, "--dtype", "float32",
                                        "--chat-template", path, "--reasoning-parser", "qwen3"});
  const auto ask = [&](const std::string& more) {
    return exchange(server.port(), "POST", "/v1/chat/completions",
                    R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6,
                        "temperature": 0, "regex": "[a-z]{8}", "return_prompt_text": true)" +
                        more + "}")
        .body;
  };
  const json::value body = json::parse(ask(R"(, "reasoning_effort": "high")")).value();
  EXPECT_EQ(body.at("prompt_text"), "hihigh effort<think>");
  const json::value& message = body.at("choices").at(0).at("message");
  EXPECT_FALSE(message.at("reasoning").as_string().empty());
  EXPECT_EQ(message.at("reasoning"), message.at("reasoning_content"));
  const auto thought_tokens = [](const json::value& answer) {
    const json::value& usage = answer.at("usage");
    const std::int64_t tokens =
        usage.at("completion_tokens_details").at("reasoning_tokens").as_int64();
    EXPECT_LE(tokens, usage.at("completion_tokens").as_int64());
    return tokens;
  };
  EXPECT_GT(thought_tokens(body), 0);
  const std::string without = ask(R"(, "include_reasoning": false)");
  EXPECT_NE(without.find("\"choices\""), std::string::npos) << without;
  EXPECT_EQ(without.find("\"reasoning\""), std::string::npos) << without;
  EXPECT_EQ(without.find("reasoning_content"), std::string::npos) << without;
  // Left out, they are counted all the same.
  EXPECT_GT(thought_tokens(json::parse(without).value()), 0);
  const std::string stream = ask(R"(, "stream": true, "include_reasoning": false)");
  EXPECT_NE(stream.find("[DONE]"), std::string::npos);
  EXPECT_EQ(stream.find("\"reasoning\""), std::string::npos) << stream;
  EXPECT_EQ(stream.find("reasoning_content"), std::string::npos) << stream;
  EXPECT_EQ(server.stop(), 0) << server.log();
}

TEST(ClientUsage, ComesWithEveryChunkWhereTheServerForcesIt) {
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGlimpse, "--dtype", "float32",
                                        "--enable-force-include-usage"});
  const std::string stream =
      exchange(server.port(), "POST", "/v1/chat/completions",
               R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "stream": true,
                   "ignore_eos": true})")
          .body;
  std::size_t chunks = 0;
  std::size_t usages = 0;
  for (std::size_t at = stream.find("data: {"); at != std::string::npos;
       at = stream.find("data: {", at + 1)) {
    ++chunks;
    usages +=
        stream.substr(at, stream.find("\n\n", at) - at).find("\"usage\"") != std::string::npos;
  }
  EXPECT_EQ(chunks, 4U) << stream;
  EXPECT_EQ(usages, chunks) << stream;
  EXPECT_EQ(server.stop(), 0) << server.log();
}

// A call whose arguments were cut off comes back as its client had it: it is shown where the
// template shows text, and where it cannot be, its place is named.
TEST(ClientHistories, ACallThatWasCutOffIsShownOrNamed) {
  ServerProcess server(SACCADE_BINARY, {"serve", "--model", kGlimpse, "--dtype", "float32",
                                        "--trust-request-chat-template"});
  const auto ask = [&](const std::string& of_call, const std::string& arguments) {
    const json::object body{
        {"chat_template",
         "{% for message in messages %}{{ message.content }}"
         "{% for call in message.tool_calls %}" +
             of_call + "{% endfor %}{% endfor %}"},
        {"return_token_strs", true},
        {"messages",
         json::array{
             json::object{{"role", "user"}, {"content", "hi"}},
             json::object{
                 {"role", "assistant"},
                 {"content", ""},
                 {"tool_calls",
                  json::array{
                      json::object{{"id", "a"},
                                   {"type", "function"},
                                   {"function", {{"name", "f"}, {"arguments", "{}"}}}},
                      json::object{{"id", "b"},
                                   {"type", "function"},
                                   {"function", {{"name", "f"}, {"arguments", arguments}}}}}}}}}};
    return exchange(server.port(), "POST", "/tokenize", boost::json::serialize(body));
  };
  const std::string cut = R"({"city": "Par)";
  const std::string plain = "{{ call.function.arguments }}";
  const std::string pairs = "{% for k, v in call.function.arguments.items() %}{{ k }}{% endfor %}";
  const std::string mapping =
      "{% if call.function.arguments is mapping %}{{ call.function.arguments.city }}{% endif %}";
  EXPECT_EQ(ask(plain, cut).status, 200) << ask(plain, cut).body;
  EXPECT_EQ(ask("{{ call.function.arguments | tojson }}", cut).status, 200);
  for (const auto& [of_call, why] :
       {std::pair{pairs, "takes no other: "}, std::pair{mapping, "leaves out any other"}}) {
    EXPECT_EQ(ask(of_call, R"({"city": "Paris"})").status, 200);
    for (const std::string none : {"", "null"}) EXPECT_EQ(ask(of_call, none).status, 200) << none;
    for (const std::string other : {"[1]", "5", "\"x\""})
      EXPECT_EQ(ask(of_call, other).status, 400) << other;
    const RawAnswer refused = ask(of_call, cut);
    EXPECT_EQ(refused.status, 400) << refused.body;
    for (const std::string words :
         {"messages[1].tool_calls[1]: 'arguments' is no JSON object", why, R"("param":"messages")"})
      EXPECT_NE(refused.body.find(words), std::string::npos) << words << ": " << refused.body;
  }
  // What else is wrong is said as it is.
  const RawAnswer other = ask("{{ raise_exception('neither') }}", cut);
  EXPECT_EQ(other.status, 400) << other.body;
  EXPECT_EQ(other.body.find("tool_calls["), std::string::npos) << other.body;
}

}  // namespace
}  // namespace saccade::test
