// Requests as clients send them, and as they should not: every refusal names its member.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>

#include "api/requests/chat_request.h"
#include "api/requests/completion_request.h"
#include "api/requests/tokenize_request.h"

namespace saccade::api {
namespace {

std::string chat_body(const std::string& members) {
  return R"({"messages": [{"role": "user", "content": "hi"}])" +
         (members.empty() ? "" : ", " + members) + "}";
}

struct RefusedChat {
  std::string members;
  std::string param;
};

class ChatRefusals : public testing::TestWithParam<RefusedChat> {};

TEST_P(ChatRefusals, NameTheMember) {
  const auto request = parse_chat_request(chat_body(GetParam().members));
  ASSERT_FALSE(request) << GetParam().members;
  EXPECT_EQ(request.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(request.error().param, GetParam().param) << request.error().message;
  EXPECT_NE(request.error().message.find(GetParam().param), std::string::npos)
      << request.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Ranges, ChatRefusals,
    testing::Values(RefusedChat{R"("temperature": -0.1)", "temperature"},
                    RefusedChat{R"("temperature": 1e999)", "temperature"},
                    RefusedChat{R"("temperature": "hot")", "temperature"},
                    RefusedChat{R"("top_p": 0)", "top_p"}, RefusedChat{R"("top_p": 1.01)", "top_p"},
                    RefusedChat{R"("top_k": -2)", "top_k"}, RefusedChat{R"("top_k": 1.5)", "top_k"},
                    RefusedChat{R"("min_p": 2)", "min_p"},
                    RefusedChat{R"("repetition_penalty": 0)", "repetition_penalty"},
                    RefusedChat{R"("presence_penalty": 2.1)", "presence_penalty"},
                    RefusedChat{R"("frequency_penalty": -2.1)", "frequency_penalty"},
                    RefusedChat{R"("seed": 18446744073709551615)", "seed"},
                    RefusedChat{R"("max_tokens": 0)", "max_tokens"},
                    RefusedChat{R"("max_completion_tokens": 0)", "max_completion_tokens"},
                    RefusedChat{R"("min_tokens": -1)", "min_tokens"},
                    RefusedChat{R"("min_tokens": 6, "max_tokens": 5)", "min_tokens"},
                    RefusedChat{R"("n": 0)", "n"}, RefusedChat{R"("n": 1000000)", "n"},
                    RefusedChat{R"("ignore_eos": 1)", "ignore_eos"},
                    RefusedChat{R"("stop": 5)", "stop"}, RefusedChat{R"("stop": [""])", "stop"},
                    RefusedChat{R"("stop_token_ids": ["a"])", "stop_token_ids"},
                    RefusedChat{R"("logit_bias": {"x": 1})", "logit_bias"},
                    RefusedChat{R"("logit_bias": {"5": 101})", "logit_bias"},
                    RefusedChat{R"("logit_bias": {"5": 1, "05": 1})", "logit_bias"},
                    RefusedChat{R"("logit_bias": {" 5": 1})", "logit_bias"},
                    RefusedChat{R"("logit_bias": {"+5": 1})", "logit_bias"},
                    RefusedChat{R"("logit_bias": {"-0": 1})", "logit_bias"},
                    RefusedChat{R"("stream": "yes")", "stream"},
                    RefusedChat{R"("stream_options": {"include_usage": true})", "stream_options"},
                    RefusedChat{R"("top_logprobs": 3)", "top_logprobs"},
                    RefusedChat{R"("logprobs": 5)", "logprobs"},
                    RefusedChat{R"("top_logprobs": -2, "logprobs": true)", "top_logprobs"},
                    RefusedChat{R"("request_id": 7)", "request_id"},
                    RefusedChat{R"("chat_template_kwargs": [])", "chat_template_kwargs"},
                    RefusedChat{R"("mm_processor_kwargs": "x")", "mm_processor_kwargs"},
                    RefusedChat{R"("min_pixels": 0)", "min_pixels"},
                    RefusedChat{R"("model": 5)", "model"},
                    RefusedChat{R"("priority": 9223372036854775807)", "priority"},
                    RefusedChat{R"("priority": -1125899906842625)", "priority"},
                    RefusedChat{R"("cache_salt": "")", "cache_salt"}));

// JSON has no infinity, but its numbers can be too large for a double.
INSTANTIATE_TEST_SUITE_P(
    NotFinite, ChatRefusals,
    testing::Values(RefusedChat{R"("temperature": 1e400)", "temperature"},
                    RefusedChat{R"("repetition_penalty": 1e400)", "repetition_penalty"},
                    RefusedChat{R"("presence_penalty": -1e400)", "presence_penalty"},
                    RefusedChat{R"("logit_bias": {"1": 1e400})", "logit_bias"},
                    RefusedChat{R"("top_k": 1e400)", "top_k"},
                    RefusedChat{R"("seed": 1e400)", "seed"}));

INSTANTIATE_TEST_SUITE_P(
    Unsupported, ChatRefusals,
    testing::Values(
        RefusedChat{R"("tools": [{}])", "tools"},
        RefusedChat{R"("prompt_logprobs": -2)", "prompt_logprobs"},
        RefusedChat{R"("tool_choice": "required")", "tool_choice"},
        RefusedChat{R"("tools": [{}], "tool_choice": "auto")", "tools"},
        RefusedChat{R"("tool_choice": {"type": "function"})", "tool_choice"},
        RefusedChat{R"("functions": [{}])", "functions"},
        RefusedChat{R"("function_call": {"name": "f"})", "function_call"},
        RefusedChat{R"("response_format": {"type": "json_schema"})", "response_format"},
        RefusedChat{R"("response_format": {})", "response_format"},
        RefusedChat{R"("response_format": {"type": "yaml"})", "response_format"},
        RefusedChat{R"("response_format": {"type": "json_schema", "json_schema": {"name": "a"}})",
                    "response_format"},
        RefusedChat{R"("structured_outputs": {"regex": 5})", "structured_outputs.regex"},
        RefusedChat{R"("structured_outputs": {"choice": []})", "structured_outputs.choice"},
        RefusedChat{R"("structured_outputs": {"json": 5})", "structured_outputs.json"},
        RefusedChat{R"("structured_outputs": {"regex": "a", "choice": ["a"]})",
                    "structured_outputs.choice"},
        RefusedChat{R"("structured_outputs": {"regx": "a"})", "structured_outputs"},
        RefusedChat{R"("response_format": {"type": "json_object", "json_schema": {"schema": {}}})",
                    "response_format"},
        RefusedChat{R"("structured_outputs": {"regex": "a", "whitespace_pattern": " "})",
                    "structured_outputs"},
        RefusedChat{R"("guided_json": [1])", "guided_json"},
        RefusedChat{R"("guided_choice": ["a", 1])", "guided_choice"},
        RefusedChat{R"("guided_regex": "a", "response_format": {"type": "json_object"})",
                    "guided_regex"},
        RefusedChat{R"("truncate_prompt_tokens": 0)", "truncate_prompt_tokens"},
        RefusedChat{R"("truncate_prompt_tokens": -2)", "truncate_prompt_tokens"},
        RefusedChat{R"("allowed_token_ids": ["a"])", "allowed_token_ids"},
        RefusedChat{R"("allowed_token_ids": 5)", "allowed_token_ids"},
        RefusedChat{R"("bad_words": [""])", "bad_words"},
        RefusedChat{R"("bad_words": [1])", "bad_words"},
        RefusedChat{R"("bad_words": "a")", "bad_words"}, RefusedChat{R"("echo": 1)", "echo"},
        RefusedChat{R"("top_logprobs": -2, "logprobs": true)", "top_logprobs"},
        RefusedChat{R"("top_logprobs": -1)", "top_logprobs"},
        RefusedChat{R"("logprob_token_ids": [1])", "logprob_token_ids"},
        RefusedChat{R"("logprob_token_ids": ["a"], "logprobs": true)", "logprob_token_ids"},
        RefusedChat{R"("logprob_token_ids": [1], "logprobs": true, "use_beam_search": true)",
                    "logprob_token_ids"},
        RefusedChat{R"("audio": {"voice": "a"})", "audio"},
        RefusedChat{R"("prompt_logprobs": 0, "stream": true)", "prompt_logprobs"},
        RefusedChat{R"("prompt_logprobs": true)", "prompt_logprobs"},
        RefusedChat{R"("use_beam_search": 1)", "use_beam_search"},
        RefusedChat{R"("use_beam_search": true, "stop": "a")", "stop"},
        RefusedChat{R"("use_beam_search": true, "bad_words": ["a"])", "bad_words"},
        RefusedChat{R"("use_beam_search": true, "min_tokens": 1)", "min_tokens"},
        RefusedChat{R"("use_beam_search": true, "prompt_logprobs": 0)", "prompt_logprobs"},
        RefusedChat{R"("use_beam_search": true, "guided_regex": "a")", "response_format"},
        RefusedChat{R"("length_penalty": "a")", "length_penalty"},
        RefusedChat{R"("best_of": 2)", "best_of"},
        RefusedChat{R"("modalities": ["audio"])", "modalities"},
        RefusedChat{R"("separate_reasoning": false)", "separate_reasoning"},
        RefusedChat{R"("stream_reasoning": false)", "stream_reasoning"},
        RefusedChat{R"("include_reasoning": 0)", "include_reasoning"},
        RefusedChat{R"("reasoning_effort": 1)", "reasoning_effort"},
        RefusedChat{R"("media_io_kwargs": {"image": {"image_mode": "RGBA"}})", "media_io_kwargs"},
        RefusedChat{R"("truncation_side": "both")", "truncation_side"},
        RefusedChat{R"("response_format": {"type": "json_object", "schema": 123})",
                    "response_format.schema"},
        RefusedChat{R"("grammar": 1)", "grammar"},
        RefusedChat{R"("moderation": {"model": "m"})", "moderation"},
        RefusedChat{R"("return_hidden_states": true)", "return_hidden_states"},
        RefusedChat{R"("continue_final_message": true, "add_generation_prompt": true)",
                    "continue_final_message"}));

// The members that sglang-router and vllm-router put into every body.
TEST(ChatRequest, WhatRoutersAddPasses) {
  const auto request = parse_chat_request(
      chat_body(R"("no_stop_trim": false, "ignore_eos": false, "continue_final_message": false,
              "skip_special_tokens": true, "separate_reasoning": true, "stream_reasoning": true,
              "include_reasoning": true, "return_hidden_states": false, "logprobs": false)"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->unknown.empty());
}

TEST(ChatRequest, WhatAsksForNothingPasses) {
  const auto request = parse_chat_request(
      chat_body(R"("tools": null, "tool_choice": "auto", "response_format": {"type": "text"},
              "prompt_logprobs": null, "use_beam_search": false, "best_of": 1, "bad_words": [],
              "guided_json": {}, "structured_outputs": null, "modalities": ["text"],
              "top_logprobs": 0, "stream_options": null)"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->unknown.empty());
  const auto no_tools = parse_chat_request(chat_body(R"("tools": [])"));
  ASSERT_TRUE(no_tools) << no_tools.error().message;
  EXPECT_FALSE(no_tools->tools.list);
}

TEST(ChatRequest, OneMemberAsksForTheAnswersForm) {
  using Kind = StructuredOutput::Kind;
  struct Case {
    const char* members;
    Kind kind;
    const char* text;
    const char* param;
  };
  for (const auto& [members, kind, text, param] :
       {Case{R"("response_format": {"type": "json_object"})", Kind::kJsonObject, "",
             "response_format"},
        Case{R"("response_format": {"type": "json_schema", "json_schema": {"name": "n",
                "strict": true, "schema": {"type": "null"}}})",
             Kind::kJsonSchema, R"({"type":"null"})", "response_format"},
        Case{R"("structured_outputs": {"json": "{\"type\":1}"})", Kind::kJsonSchema,
             R"({"type":1})", "structured_outputs.json"},
        Case{R"("structured_outputs": {"json_object": true, "regex": null})", Kind::kJsonObject, "",
             "structured_outputs.json_object"},
        Case{R"("structured_outputs": {"grammar": "root ::= \"a\"", "disable_fallback": true})",
             Kind::kGrammar, "root ::= \"a\"", "structured_outputs.grammar"},
        Case{R"("guided_regex": "a+", "guided_decoding_backend": "xgrammar")", Kind::kRegex, "a+",
             "guided_regex"},
        Case{R"("response_format": {"type": "json_object", "schema": {"type": "null"}})",
             Kind::kJsonSchema, R"({"type":"null"})", "response_format.schema"},
        Case{R"("json_schema": {"type": "null"}, "grammar": "")", Kind::kJsonSchema,
             R"({"type":"null"})", "json_schema"},
        Case{R"("grammar": "root ::= \"a\"", "json_schema": {})", Kind::kGrammar, "root ::= \"a\"",
             "grammar"},
        Case{R"("regex": "a+")", Kind::kRegex, "a+", "regex"}}) {
    const auto request = parse_chat_request(chat_body(members));
    ASSERT_TRUE(request) << members << request.error().message;
    ASSERT_TRUE(request->sampling.structured) << members;
    EXPECT_EQ(request->sampling.structured->kind, kind);
    EXPECT_EQ(request->sampling.structured->text, text);
    EXPECT_EQ(request->sampling.structured->param, param);
    EXPECT_TRUE(request->unknown.empty());
  }
  const auto choice =
      parse_completion_request(R"({"prompt": "a", "structured_outputs": {"choice": ["x", "y"]}})");
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_EQ(choice->sampling.structured->choices, (std::vector<std::string>{"x", "y"}));
  const auto compact = parse_completion_request(
      R"({"prompt": "a", "structured_outputs": {"json": {}, "disable_any_whitespace": true}})");
  ASSERT_TRUE(compact) << compact.error().message;
  EXPECT_EQ(compact->sampling.structured->blanks, StructuredOutput::Blanks::kNone);
  const auto blanks = [](const std::string& more) {
    const auto made = parse_completion_request(
        R"({"prompt": "a", "structured_outputs": {"json": {})" + more + "}}");
    return made->sampling.structured->blanks;
  };
  EXPECT_EQ(blanks(""), StructuredOutput::Blanks::kDefault);
  EXPECT_EQ(blanks(R"(, "disable_any_whitespace": false)"), StructuredOutput::Blanks::kAny);
}

TEST(ChatRequest, AbsentMembersStayEmpty) {
  const auto request = parse_chat_request(chat_body(""));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_FALSE(request->sampling.temperature);
  EXPECT_FALSE(request->sampling.max_tokens);
  EXPECT_EQ(request->sampling.n, 1);
  EXPECT_TRUE(request->sampling.skip_special_tokens);
  EXPECT_TRUE(request->add_generation_prompt);
  EXPECT_FALSE(request->delivery.stream);
  EXPECT_TRUE(request->unknown.empty());
}

TEST(ChatRequest, NullIsAbsent) {
  const auto request = parse_chat_request(
      chat_body(R"("temperature": null, "stop": null, "tools": null, "stream_options": null)"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_FALSE(request->sampling.temperature);
}

TEST(ChatRequest, AnIntegerOfMoreThan64BitsIsNamedWithItsRange) {
  for (const std::string number : {"9223372036854775808", "18446744073709551615"}) {
    const auto request = parse_chat_request(chat_body(R"("seed": )" + number));
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().message,
              "'seed' is " + number + ", -9223372036854775808 to 9223372036854775807 is possible");
  }
}

TEST(ChatRequest, ReadsEverySamplingMember) {
  const auto request = parse_chat_request(chat_body(
      R"("temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1,
         "presence_penalty": 1, "frequency_penalty": -1, "seed": -5, "max_tokens": 7,
         "max_completion_tokens": 9, "min_tokens": 2, "n": 3, "ignore_eos": true,
         "stop": ["a", "b"], "stop_token_ids": [1, 2], "logit_bias": {"10": -100},
         "include_stop_str_in_output": true, "skip_special_tokens": false)"));
  ASSERT_TRUE(request) << request.error().message;
  const SamplingFields& s = request->sampling;
  EXPECT_EQ(s.temperature, 0.5);
  EXPECT_EQ(s.top_k, 40);
  EXPECT_EQ(s.seed, -5);
  EXPECT_EQ(s.max_tokens, 9);  // the newer name wins
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.n, 3);
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_EQ(s.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.stop_token_ids, (std::vector<std::int64_t>{1, 2}));
  ASSERT_EQ(s.logit_bias.size(), 1u);
  EXPECT_EQ(s.logit_bias[0].first, 10);
  EXPECT_TRUE(s.include_stop_str_in_output);
  EXPECT_FALSE(s.skip_special_tokens);
}

TEST(ChatRequest, ReadsDelivery) {
  const auto request = parse_chat_request(
      chat_body(R"("stream": true, "metrics": true, "return_token_ids": true, "priority": -3,
              "cache_salt": "s", "request_id": "r",
              "stream_options": {"include_usage": true, "continuous_usage_stats": true})"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->delivery.stream && request->delivery.include_usage);
  EXPECT_TRUE(request->delivery.continuous_usage_stats && request->delivery.metrics);
  EXPECT_TRUE(request->delivery.return_token_ids);
  EXPECT_EQ(request->delivery.priority, -3);
  EXPECT_EQ(request->delivery.cache_salt, "s");
  EXPECT_EQ(request->delivery.request_id, "r");
  EXPECT_TRUE(parse_chat_request(chat_body(R"("stream_options": {})")));
}

// vLLM's way: the template is shown the effort, and whether it is any at all.
TEST(ChatRequest, EffortIsShownToTheTemplate) {
  const auto variables = [](const std::string& members) {
    const auto request = parse_chat_request(chat_body(members));
    EXPECT_TRUE(request) << request.error().message;
    return request ? json::value(request->chat_template_kwargs) : json::value();
  };
  EXPECT_EQ(variables(R"("reasoning_effort": "high")"),
            (json::object{{"reasoning_effort", "high"}, {"enable_thinking", true}}));
  EXPECT_EQ(variables(R"("reasoning_effort": "none", "verbosity": "low")"),
            (json::object{
                {"reasoning_effort", "none"}, {"enable_thinking", false}, {"verbosity", "low"}}));
  EXPECT_EQ(variables(R"("reasoning_effort": "low",
                         "chat_template_kwargs": {"enable_thinking": false, "reasoning_effort": 1})"),
            (json::object{{"enable_thinking", false}, {"reasoning_effort", "low"}}));
  EXPECT_EQ(variables(R"("reasoning_effort": null)"), json::object());
}

// A conversation is what its own members say it is.
TEST(ChatRequest, VariablesOfTheTemplateReplaceNoMembers) {
  const auto refused = [](const std::string& members, const std::string& name) {
    const auto request = parse_chat_request(chat_body(members));
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.error().param, "chat_template_kwargs");
    EXPECT_NE(request.error().message.find("'" + name + "'"), std::string::npos)
        << request.error().message;
  };
  for (const std::string name : {"messages", "tools", "chat_template", "tokenize"}) {
    refused(R"("chat_template_kwargs": {")" + name + R"(": []})", name);
    refused(R"("chat_template_kwargs": {"enable_thinking": true, ")" + name + R"(": null})", name);
  }
  refused(R"("chat_template_kwargs": {"add_generation_prompt": false})", "add_generation_prompt");
  refused(R"("chat_template_kwargs": {"continue_final_message": true})", "continue_final_message");
  refused(R"("chat_template_kwargs": {"documents": "d"})", "documents");
  refused(R"("documents": [], "chat_template_kwargs": {"documents": [1]})", "documents");

  const auto taken = parse_chat_request(
      chat_body(R"("chat_template_kwargs": {"add_generation_prompt": true, "a": 1, "documents": [2],
                                       "continue_final_message": null})"));
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(taken->chat_template_kwargs, (json::object{{"a", 1}}));
  EXPECT_EQ(taken->documents, json::array{2});
}

// What the template sees of messages.
json::value seen_messages(const std::string& messages) {
  const auto request = parse_chat_request(R"({"messages": [)" + messages + "]}");
  EXPECT_TRUE(request) << request.error().message;
  if (!request) return {};
  return template_messages(*request, [](std::string_view text) { return std::string(text); });
}

TEST(ChatRequest, ThoughtsOfAHistoryHaveBothNames) {
  const json::value both =
      json::parse(
          R"([{"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "r"}])")
          .value();
  EXPECT_EQ(seen_messages(R"({"role": "assistant", "content": "a", "reasoning": "r"})"), both);
  EXPECT_EQ(seen_messages(R"({"role": "assistant", "content": "a", "reasoning_content": "r"})"),
            both);
  EXPECT_EQ(seen_messages(R"({"role": "assistant", "content": "a", "reasoning": "r",
                     "reasoning_content": "older"})"),
            both);
  EXPECT_EQ(seen_messages(R"({"role": "assistant", "content": "a", "reasoning": null,
                     "reasoning_content": "r"})"),
            both);
}

// What openai's model_dump() makes of an answer.
TEST(ChatRequest, MembersOfAHistoryThatSayNothingAreLeftOut) {
  const json::value bare = json::parse(R"([{"role": "assistant", "content": "a"}])").value();
  EXPECT_EQ(
      seen_messages(R"({"role": "assistant", "content": "a", "refusal": null, "annotations": null,
                     "audio": null, "function_call": null, "tool_calls": null})"),
      bare);
  EXPECT_EQ(seen_messages(R"({"role": "assistant", "content": "a", "tool_calls": []})"), bare);
}

TEST(ChatRequest, UsageOfEveryChunkNeedsUsage) {
  const auto delivery = [](const std::string& options) {
    return parse_chat_request(chat_body(R"("stream": true, "stream_options": )" + options))
        ->delivery;
  };
  EXPECT_FALSE(delivery(R"({"include_usage": false, "continuous_usage_stats": true})")
                   .continuous_usage_stats);
  EXPECT_FALSE(delivery(R"({"continuous_usage_stats": true})").continuous_usage_stats);
  EXPECT_TRUE(delivery(R"({"include_usage": true, "continuous_usage_stats": true})")
                  .continuous_usage_stats);
}

TEST(ChatRequest, AnAnswerBeginsWithItsOwnAuthorsWords) {
  const auto echoes = [](const std::string& role, const std::string& more) {
    return parse_chat_request(R"({"messages": [{"role": ")" + role + R"(", "content": "a"}], )" +
                              more + "}")
        ->echoes();
  };
  EXPECT_TRUE(echoes("assistant", R"("echo": true, "continue_final_message": true)"));
  EXPECT_TRUE(echoes("assistant", R"("echo": true)"));
  EXPECT_FALSE(echoes("user", R"("echo": true)"));
  EXPECT_FALSE(echoes("assistant", R"("echo": false)"));
}

TEST(ChatRequest, RolesAreTheTemplatesAffair) {
  EXPECT_EQ(seen_messages(R"({"role": "critic", "content": "a"})").at(0).at("role"), "critic");
  EXPECT_FALSE(parse_chat_request(R"({"messages": [{"role": "", "content": "a"}]})"));
}

TEST(ChatRequest, AnImageOfAUuidNeedsNoUrl) {
  for (const char* part : {R"({"type": "image_url", "image_url": {}, "uuid": "u"})",
                           R"({"type": "image_url", "image_url": null, "uuid": "u"})",
                           R"({"type": "image_url", "image_url": {"url": null}, "uuid": "u"})",
                           R"({"type": "image_url", "image_url": {"url": ""}, "uuid": "u"})"}) {
    const auto request = parse_chat_request(R"({"messages": [{"role": "user", "content": [)" +
                                            std::string(part) + "]}]}");
    ASSERT_TRUE(request) << part << request.error().message;
    EXPECT_EQ(request->images.at(0).uuid, "u");
    EXPECT_EQ(request->images.at(0).url, "");
  }
  EXPECT_FALSE(parse_chat_request(
      R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})"));
}

TEST(ChatRequest, OriginalDetailIsHigh) {
  const auto request = parse_chat_request(R"({"messages": [{"role": "user", "content": [
      {"type": "image_url", "image_url": {"url": "data:1", "detail": "original"}}]}]})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->images.at(0).detail, ImageDetail::kHigh);
}

TEST(ChatRequest, UnknownMembersAreListedOnce) {
  const auto request =
      parse_chat_request(chat_body(R"("nosuch": 1, "user": "u", "metadata": {}, "other": {})"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->unknown, (std::vector<std::string>{"nosuch", "other"}));
}

TEST(ChatRequest, TakesImagesInEveryForm) {
  const auto request = parse_chat_request(R"({"messages": [{"role": "user", "content": [
      {"type": "text", "text": "a"},
      {"type": "image_url", "image_url": {"url": "data:1", "detail": "low", "min_pixels": 4}},
      {"type": "image_url", "image_url": "data:2", "uuid": "u", "max_pixels": 9},
      {"type": "input_image", "image_url": "data:3"}]}]})");
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->images.size(), 3u);
  EXPECT_EQ(request->images[0].detail, ImageDetail::kLow);
  EXPECT_EQ(request->images[0].min_pixels, 4);
  EXPECT_EQ(request->images[1].url, "data:2");
  EXPECT_EQ(request->images[1].uuid, "u");
  EXPECT_EQ(request->images[1].max_pixels, 9);
  EXPECT_EQ(request->messages[0].content[3].index, 2u);
}

TEST(ChatRequest, RefusesWhatIsNoConversation) {
  for (
      const std::string messages :
      {"null", "[]", "{}", "[1]", "[{}]", R"([{"role": "user"}])",
       R"([{"role": "user", "content": 5}])", R"([{"role": "", "content": "x"}])",
       R"([{"role": "user", "content": [{}]}])",
       R"([{"role": "user", "content": [{"type": "input_audio"}]}])",
       R"([{"role": "user", "content": [{"type": "image_url"}]}])",
       R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "huge"}}]}])",
       R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "min_pixels": 0}}]}])"}) {
    const auto request = parse_chat_request(R"({"messages": )" + messages + "}");
    ASSERT_FALSE(request) << messages;
    EXPECT_EQ(request.error().param, "messages") << messages;
  }
}

TEST(ChatRequest, RefusesBodiesThatAreNoRequest) {
  for (const std::string body : {"", "{", "[]", "1", "\"x\"", "{} x", "{\"messages\": \"\xFF\"}"}) {
    const auto request = parse_chat_request(body);
    ASSERT_FALSE(request) << body;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalid) << body;
  }
  const std::string deep =
      chat_body("\"x\": " + std::string(100'000, '[') + std::string(100'000, ']'));
  EXPECT_FALSE(parse_chat_request(deep));
}

TEST(TemplateMessages, GuardTextAndParseToolArguments) {
  const auto request = parse_chat_request(R"({"messages": [
      {"role": "user", "content": "a", "name": "n"},
      {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": "x"}]},
      {"role": "assistant", "content": null, "tool_calls": [
         {"function": {"name": "f", "arguments": "{\"a\": 1, \"b\": [\"x\"]}"}},
         {"function": {"name": "g", "arguments": "no json"}},
         {"function": {"name": "g", "arguments": "[1]"}},
         {"function": {"name": "h", "arguments": " null"}},
         {"function": {"name": "h", "arguments": ""}}, {"function": {"name": "i"}}]}]})");
  ASSERT_TRUE(request) << request.error().message;
  const auto messages = template_messages(
      *request, [](std::string_view text) { return "<" + std::string(text) + ">"; });
  std::string shown;
  json::JsonWriter(shown).value(json::value(messages));
  EXPECT_EQ(shown, R"([{"role":"user","content":"<a>","name":"<n>"},)"
                   R"({"role":"user","content":[{"type":"text","text":"<b>"},{"type":"image"}]},)"
                   R"({"role":"assistant","content":[],"tool_calls":[)"
                   R"({"function":{"name":"<f>","arguments":{"a":1,"b":["<x>"]}}},)"
                   R"({"function":{"name":"<g>","arguments":"<no json>"}},)"
                   R"({"function":{"name":"<g>","arguments":"<[1]>"}},)"
                   R"({"function":{"name":"<h>","arguments":{}}},)"
                   R"({"function":{"name":"<h>","arguments":{}}},)"
                   R"({"function":{"name":"<i>","arguments":{}}}]}])");
}

TEST(CompletionRequest, TakesAllFourPromptForms) {
  EXPECT_EQ(parse_completion_request(R"({"prompt": "a"})")->prompts[0].text, "a");
  EXPECT_EQ(parse_completion_request(R"({"prompt": ["a", "b"]})")->prompts.size(), 2u);
  const auto ids = parse_completion_request(R"({"prompt": [1, 2]})");
  ASSERT_EQ(ids->prompts.size(), 1u);
  EXPECT_EQ(ids->prompts[0].tokens, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(parse_completion_request(R"({"prompt": [[1], [2, 3]]})")->prompts[1].tokens.size(), 2u);
}

TEST(CompletionRequest, RefusalsNameTheMember) {
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "prompt"},
           {R"({"prompt": []})", "prompt"},
           {R"({"prompt": 5})", "prompt"},
           {R"({"prompt": ["a", 1]})", "prompt"},
           {R"({"prompt": [1, "a"]})", "prompt"},
           {R"({"prompt": [[1], "a"]})", "prompt"},
           {R"({"prompt": "a", "suffix": "b"})", "suffix"},
           {R"({"prompt": "a", "logprobs": -1})", "logprobs"},
           {R"({"prompt": "a", "best_of": 3, "n": 4})", "best_of"},
           {R"({"prompt": "a", "best_of": 3, "n": 2, "stream": true})", "best_of"},
           {R"({"prompt": "a", "best_of": 129})", "best_of"},
           {R"({"prompt": "a", "use_beam_search": true, "echo": true, "logprobs": 1})", "echo"},
           {R"({"prompt": "a", "use_beam_search": true, "best_of": 1, "n": 2})", "best_of"},
           {R"({"prompt": "a", "prompt_logprobs": 1, "stream": true})", "prompt_logprobs"},
           {R"({"prompt": "a", "guided_json": 1})", "guided_json"},
           {R"({"prompt": "a", "response_format": {"type": "json"}})", "response_format"},
           {R"({"prompt": [1.5]})", "prompt"},
           {R"({"prompt": [99999999999999999999]})", "prompt"},
           {R"({"prompt": "a", "max_tokens": 0})", "max_tokens"},
           {R"({"prompt": "a", "echo": true, "max_tokens": -1})", "max_tokens"}}) {
    const auto request = parse_completion_request(body);
    ASSERT_FALSE(request) << body;
    EXPECT_EQ(request.error().param, param) << request.error().message;
  }
}

TEST(CompletionRequest, TokensThatMayAndMustNotCome) {
  const auto request = parse_completion_request(
      R"({"prompt": "a", "bad_words": ["x", " y"], "allowed_token_ids": [3, 4], "n": 2,
          "best_of": 5, "truncate_prompt_tokens": -1, "truncation_side": "right"})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->sampling.bad_words, (std::vector<std::string>{"x", " y"}));
  EXPECT_EQ(request->sampling.allowed_token_ids, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(request->sampling.truncate_prompt_tokens, -1);
  EXPECT_TRUE(request->sampling.truncate_right);
  EXPECT_EQ(request->best_of, 5);
  EXPECT_EQ(parse_completion_request(R"({"prompt": "a", "n": 3})")->best_of, 3);
}

// An echo with log-probabilities needs the prompt's own, as many beside each as are asked for.
TEST(CompletionRequest, PromptsMayBeScored) {
  const auto scored = [](const std::string& members) {
    const auto request = parse_completion_request(R"({"prompt": "a", )" + members + "}");
    EXPECT_TRUE(request) << request.error().message;
    return request->prompt_logprobs();
  };
  EXPECT_EQ(scored(R"("prompt_logprobs": 0)"), 0);
  EXPECT_EQ(scored(R"("prompt_logprobs": -1)"), -1);
  EXPECT_EQ(scored(R"("echo": true, "logprobs": 3)"), 3);
  EXPECT_EQ(scored(R"("echo": true, "logprobs": 3, "prompt_logprobs": 5)"), 5);
  EXPECT_EQ(scored(R"("logprobs": 3)"), std::nullopt);
  EXPECT_EQ(scored(R"("echo": true)"), std::nullopt);
  EXPECT_TRUE(parse_completion_request(R"({"prompt": "a", "echo": true, "max_tokens": 0})")
                  ->prompt_alone());
  EXPECT_FALSE(parse_completion_request(R"({"prompt": "a", "echo": true})")->prompt_alone());
}

TEST(CompletionRequest, UnknownMembersAreListedOnce) {
  const auto request = parse_completion_request(R"({"prompt": "a", "nosuch": 1, "user": "u"})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->unknown, (std::vector<std::string>{"nosuch"}));
}

TEST(TokenizeRequest, TakesAPromptOrMessages) {
  for (const std::string name : {"prompt", "content"}) {
    const auto both = parse_tokenize_request(
        "{\"" + name + R"(": "a", "messages": [{"role": "user", "content": "x"}]})");
    ASSERT_FALSE(both) << name;
    EXPECT_EQ(both.error().param, name);
  }
  EXPECT_EQ(*parse_tokenize_request(R"({"prompt": "a", "add_special_tokens": false})")->prompt,
            "a");
  EXPECT_TRUE(parse_tokenize_request(chat_body("\"return_token_strs\": true"))->chat);
  const auto content = parse_tokenize_request(R"({"content": "a", "add_special": true})");
  EXPECT_EQ(*content->prompt, "a");
  EXPECT_TRUE(content->add_special_tokens);
  EXPECT_FALSE(parse_tokenize_request(R"({"content": "a"})")->add_special_tokens);
  EXPECT_TRUE(content->parse_special_tokens);
  EXPECT_FALSE(
      parse_tokenize_request(R"({"content": "a", "parse_special": false})")->parse_special_tokens);
  EXPECT_EQ(parse_tokenize_request("{}").error().param, "prompt");
  EXPECT_EQ(parse_detokenize_request(R"({"tokens": [1, 2]})")->tokens.size(), 2u);
  EXPECT_EQ(parse_detokenize_request(R"({"tokens": ["a"]})").error().param, "tokens");
}

}  // namespace
}  // namespace saccade::api
