// Answers as clients read them: shapes, usage, log-probabilities, errors.
#include "api/answers/responses.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <limits>

#include "api/pages/error_table.h"
#include "base/text/utf8.h"

namespace saccade::api {
namespace {

const AnswerHead kHead{"chatcmpl-1", 7, "m"};
const Usage kUsage{10, 3, 4, 6};

json::value parsed(const std::string& text) {
  auto tree = json::parse(text);
  EXPECT_TRUE(tree) << text;
  return tree ? *std::move(tree) : json::value();
}

json::value event(const std::string& text) {
  EXPECT_TRUE(text.starts_with("data: ") && text.ends_with("\n\n")) << text;
  return parsed(text.substr(6));
}

ChoiceText choice(std::string text) {
  ChoiceText made;
  made.text = std::move(text);
  made.finish_reason = "stop";
  return made;
}

TEST(Responses, UsageSplitsThePrompt) {
  const ChoiceText one = choice("x");
  const auto body = parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr));
  EXPECT_EQ(body.at("object").as_string(), "chat.completion");
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 13);
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 4);
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("image_tokens").as_int64(), 6);
  EXPECT_FALSE(body.as_object().contains("metrics"));
}

TEST(Responses, TimesAreThereWhenAskedAndOnlyWhatHappened) {
  const StageTimes times{{{"arrival", 0}, {"encode_start", -1}, {"finished", 12}}};
  const ChoiceText one = choice("x");
  const auto metrics = parsed(chat_completion(kHead, {&one, 1}, kUsage, &times)).at("metrics");
  EXPECT_EQ(metrics.at("finished").as_int64(), 12);
  EXPECT_FALSE(metrics.as_object().contains("encode_start"));
}

TEST(Responses, LogprobsAreFiniteAndOffsetsCountCharacters) {
  ChoiceText one = choice("é!");
  one.text_offset = 5;
  const double never = -std::numeric_limits<double>::infinity();
  one.logprobs = {{"é", 1, never, {{"é", 1, never}}}, {"!", 2, -0.5, {}}};
  const auto text = parsed(text_completion(kHead, {&one, 1}, kUsage, nullptr));
  const auto& old = text.at("choices").at(0).at("logprobs");
  EXPECT_EQ(old.at("text_offset").at(0).as_int64(), 5);
  EXPECT_EQ(old.at("text_offset").at(1).as_int64(), 6);
  EXPECT_EQ(old.at("token_logprobs").at(0).as_double(), -9999.0);
  const auto chat = parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr));
  const auto& entry = chat.at("choices").at(0).at("logprobs").at("content").at(0);
  EXPECT_EQ(entry.at("logprob").as_double(), -9999.0);
  EXPECT_EQ(entry.at("bytes").as_array().size(), 2u);
}

TEST(Responses, BytesThatAreNoTextStayValidJson) {
  ChoiceText one = choice("a\xFF\x01\"\\");
  one.logprobs = {{"\xE2\x82", 1, -1, {}}};
  const auto body = parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr));
  EXPECT_EQ(body.at("choices").at(0).at("message").at("content").as_string(),
            "a\xEF\xBF\xBD\x01\"\\");
  EXPECT_EQ(
      body.at("choices").at(0).at("logprobs").at("content").at(0).at("bytes").at(0).as_int64(),
      0xE2);
}

TEST(Responses, ThoughtsHaveBothNames) {
  ChoiceText one = choice("x");
  one.reasoning = "r";
  const auto whole = parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr));
  const auto chunk = event(chat_chunk(kHead, one, true, nullptr));
  for (const json::value& said :
       {whole.at("choices").at(0).at("message"), chunk.at("choices").at(0).at("delta")}) {
    EXPECT_EQ(said.at("reasoning"), "r");
    EXPECT_EQ(said.at("reasoning_content"), "r");
  }
}

TEST(Responses, ThoughtsAreCountedWhereTheyAreToldApart) {
  const ChoiceText one = choice("x");
  const auto usage = [&](const Usage& used) {
    return parsed(chat_completion(kHead, {&one, 1}, used, nullptr)).at("usage").as_object();
  };
  EXPECT_FALSE(usage(kUsage).contains("completion_tokens_details"));
  Usage thought = kUsage;
  for (const int tokens : {0, 2}) {
    thought.reasoning_tokens = tokens;
    EXPECT_EQ(usage(thought).at("completion_tokens_details").at("reasoning_tokens"), tokens);
  }
}

// vLLM's places: of a chat beside the choices, of a completion in each.
TEST(Responses, ThePromptIsShownWhereItIsAskedFor) {
  ChoiceText one = choice("x");
  const auto silent = parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr));
  EXPECT_TRUE(silent.at("prompt_logprobs").is_null());
  EXPECT_FALSE(silent.as_object().contains("prompt_token_ids"));
  const auto text = parsed(text_completion(kHead, {&one, 1}, kUsage, nullptr));
  for (const std::string_view name : {"prompt_logprobs", "prompt_token_ids"})
    EXPECT_TRUE(text.at("choices").at(0).at(name).is_null()) << name;
  EXPECT_FALSE(event(text_chunk(kHead, one, nullptr))
                   .at("choices")
                   .at(0)
                   .as_object()
                   .contains("prompt_token_ids"));
  one.prompt_token_ids = std::make_shared<const std::vector<std::int32_t>>(std::vector{3, 1});
  one.prompt_text = "hi";
  const json::value ids = json::array{3, 1};
  EXPECT_EQ(parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr)).at("prompt_token_ids"), ids);
  EXPECT_EQ(parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr)).at("prompt_text"), "hi");
  EXPECT_EQ(event(chat_chunk(kHead, one, true, nullptr)).at("prompt_token_ids"), ids);
  EXPECT_EQ(parsed(text_completion(kHead, {&one, 1}, kUsage, nullptr))
                .at("choices")
                .at(0)
                .at("prompt_token_ids"),
            ids);
  EXPECT_EQ(event(text_chunk(kHead, one, nullptr)).at("choices").at(0).at("prompt_token_ids"), ids);
}

TEST(Responses, StopReasonIsAStringATokenOrNull) {
  ChoiceText one = choice("x");
  EXPECT_TRUE(parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr))
                  .at("choices")
                  .at(0)
                  .at("stop_reason")
                  .is_null());
  one.stop_token = 42;
  EXPECT_EQ(parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr))
                .at("choices")
                .at(0)
                .at("stop_reason")
                .as_int64(),
            42);
  one.stop_string = "END";
  EXPECT_EQ(parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr))
                .at("choices")
                .at(0)
                .at("stop_reason")
                .as_string(),
            "END");
}

TEST(Responses, TheRoleComesWithTheFirstChunkOnly) {
  ChoiceText one = choice("x");
  one.finish_reason = "";
  const auto first = event(chat_chunk(kHead, one, true, nullptr));
  EXPECT_EQ(first.at("choices").at(0).at("delta").at("role").as_string(), "assistant");
  EXPECT_TRUE(first.at("choices").at(0).at("finish_reason").is_null());
  EXPECT_FALSE(first.as_object().contains("usage"));
  const auto next = event(chat_chunk(kHead, one, false, &kUsage));
  EXPECT_FALSE(next.at("choices").at(0).at("delta").as_object().contains("role"));
  EXPECT_EQ(next.at("usage").at("completion_tokens").as_int64(), 3);
}

TEST(Responses, CallsAndThoughtsStandBesideContent) {
  ChoiceText choice;
  choice.finish_reason = "tool_calls";
  choice.reasoning = "Hm.";
  choice.calls = {{0, "call_1", "f", "{\"a\": 1}"}, {1, "call_2", "g", "{}"}};
  const auto body =
      json::parse(chat_completion(kHead, std::span(&choice, 1), kUsage, nullptr)).value();
  const auto& message = body.at("choices").at(0).at("message");
  EXPECT_TRUE(message.at("content").is_null());
  EXPECT_EQ(message.at("reasoning_content"), "Hm.");
  EXPECT_EQ(message.at("tool_calls").at(0), *json::parse(R"({"id": "call_1", "type": "function",
                             "function": {"name": "f", "arguments": "{\"a\": 1}"}})"));
  EXPECT_EQ(message.at("tool_calls").at(1).at("id"), "call_2");

  // A delta names the call by its number; one without an id goes on.
  choice.calls = {{0, "", "", ": 1}"}, {1, "call_2", "g", ""}};
  const auto delta =
      event(chat_chunk(kHead, choice, false, nullptr)).at("choices").at(0).at("delta");
  EXPECT_FALSE(delta.as_object().contains("content"));
  EXPECT_EQ(delta.at("tool_calls").at(0),
            *json::parse(R"({"index": 0, "function": {"arguments": ": 1}"}})"));
  EXPECT_EQ(delta.at("tool_calls").at(1),
            *json::parse(R"({"index": 1, "id": "call_2", "type": "function",
                             "function": {"name": "g", "arguments": ""}})"));
  // Content is there where there is some, and where there is nothing at all.
  choice.text = "x";
  EXPECT_EQ(event(chat_chunk(kHead, choice, false, nullptr))
                .at("choices")
                .at(0)
                .at("delta")
                .at("content"),
            "x");
  EXPECT_EQ(event(chat_chunk(kHead, ChoiceText(), false, nullptr))
                .at("choices")
                .at(0)
                .at("delta")
                .at("content"),
            "");
}

TEST(Responses, ACompletionChunkStartsAtItsOffset) {
  ChoiceText one = choice("b");
  one.text_offset = 9;
  one.logprobs = {{"\xE2\x82", 1, -1, {}}, {"\xAC", 2, -1, {}}, {"b", 3, -1, {}}};
  const auto chunk = event(text_chunk(kHead, one, nullptr));
  const auto& offsets = chunk.at("choices").at(0).at("logprobs").at("text_offset").as_array();
  // The bytes of one character may come with two tokens: it counts with the first.
  EXPECT_EQ(offsets, (json::array{9, 10, 10}));
  EXPECT_EQ(character_count("\xE2\x82\xAC b"), 3);
}

TEST(Responses, APromptsFirstTokenHasNoLogprob) {
  ChoiceText one = choice("ab");
  LogprobEntry first{"a", 5, 0, {}};
  first.unscored = true;
  one.logprobs = {first, {"b", 6, -1, {{"c", 7, -0.5}}}};
  const auto made = parsed(text_completion(kHead, {&one, 1}, kUsage, nullptr));
  const auto& logprobs = made.at("choices").at(0).at("logprobs");
  EXPECT_EQ(logprobs.at("token_logprobs"), (json::array{nullptr, -1.0}));
  EXPECT_EQ(logprobs.at("tokens"), (json::array{"a", "b"}));
  EXPECT_EQ(logprobs.at("top_logprobs"),
            (json::array{nullptr, json::object{{"c", -0.5}, {"b", -1.0}}}));
}

TEST(Responses, TokensThatLookTheSameHaveOneName) {
  ChoiceText one = choice("x");
  one.logprobs = {{"\x80", 1, -2, {{"\xBF", 2, -0.5}, {"a", 3, -1}, {"\x80", 1, -2}}}};
  const std::string text = text_completion(kHead, {&one, 1}, kUsage, nullptr);
  EXPECT_NE(text.find("\"top_logprobs\":[{\"\uFFFD\":-0.5,\"a\":-1.0}]"), std::string::npos)
      << text;
}

// In texts of the choice, in chats of the answer.
TEST(Responses, PromptLogprobsAreObjectsByIds) {
  ChoiceText one = choice("x");
  one.prompt_logprobs = {{}, {{42, "\xE2\x82", -3, 7}, {5, "e", -0.5, 1}}};
  const auto expected = json::array{
      nullptr,
      json::object{
          {"42", json::object{{"logprob", -3.0}, {"rank", 7}, {"decoded_token", "\xEF\xBF\xBD"}}},
          {"5", json::object{{"logprob", -0.5}, {"rank", 1}, {"decoded_token", "e"}}}}};
  const auto text = parsed(text_completion(kHead, {&one, 1}, kUsage, nullptr));
  EXPECT_EQ(text.at("choices").at(0).at("prompt_logprobs"), expected);
  EXPECT_FALSE(text.as_object().contains("prompt_logprobs"));
  const auto chat = parsed(chat_completion(kHead, {&one, 1}, kUsage, nullptr));
  EXPECT_EQ(chat.at("prompt_logprobs"), expected);
  EXPECT_FALSE(chat.at("choices").at(0).as_object().contains("prompt_logprobs"));
}

TEST(Responses, TokenizeCountsAndNamesTokens) {
  const std::vector<std::int32_t> ids = {5, 6};
  const std::vector<std::string> pieces = {"a", "b"};
  const std::vector<std::int64_t> images = {64};
  const auto body = parsed(tokenize_response(ids, 128, &pieces, images));
  EXPECT_EQ(body.at("count").as_int64(), 2);
  EXPECT_EQ(body.at("max_model_len").as_int64(), 128);
  EXPECT_EQ(body.at("token_strs"), (json::array{"a", "b"}));
  EXPECT_EQ(body.at("image_tokens"), (json::array{64}));
  EXPECT_TRUE(parsed(tokenize_response(ids, 128, nullptr, {})).at("token_strs").is_null());
  EXPECT_EQ(parsed(detokenize_response("x\"y")).at("prompt").as_string(), "x\"y");
}

TEST(Responses, ModelCardsSayWhatTheModelCanDo) {
  const ModelCard card{"m", 7, "/models/m", 4096, true, 1024};
  const auto list = parsed(model_list({&card, 1}));
  EXPECT_EQ(list.at("object").as_string(), "list");
  EXPECT_EQ(list.at("data").at(0).at("root").as_string(), "/models/m");
  EXPECT_EQ(list.at("data").at(0).at("max_model_len").as_int64(), 4096);
  EXPECT_TRUE(list.at("data").at(0).at("capabilities").at("vision").as_bool());
  EXPECT_EQ(parsed(model_card(card)), list.at("data").at(0));
}

TEST(Responses, TheUsageChunkHasNoChoices) {
  const auto chunk = event(usage_chunk(kHead, true, kUsage, nullptr));
  EXPECT_TRUE(chunk.at("choices").as_array().empty());
  EXPECT_EQ(chunk.at("object").as_string(), "chat.completion.chunk");
  EXPECT_EQ(event(usage_chunk(kHead, false, kUsage, nullptr)).at("object").as_string(),
            "text_completion");
}

TEST(ErrorTable, SaysWhatVllmDoes) {
  EXPECT_EQ(kind_of(ErrorCode::kInvalid).status, 400);
  EXPECT_EQ(kind_of(ErrorCode::kNotFound).type, "NotFoundError");
  EXPECT_EQ(kind_of(ErrorCode::kTooLarge).status, 413);
  EXPECT_EQ(kind_of(ErrorCode::kUndecodable).status, 422);
  EXPECT_EQ(kind_of(ErrorCode::kExhausted).status, 429);
  EXPECT_EQ(kind_of(ErrorCode::kUnavailable).status, 503);
  EXPECT_EQ(kind_of(ErrorCode::kInternal).status, 500);
  EXPECT_EQ(
      error_body(Error{ErrorCode::kInvalid, "a \"b\"", "top_p"}),
      R"({"error":{"message":"a \"b\"","type":"BadRequestError","param":"top_p","code":400}})");
  EXPECT_EQ(error_body(Error{ErrorCode::kNotFound, "x", ""}),
            R"({"error":{"message":"x","type":"NotFoundError","param":null,"code":404}})");
}

}  // namespace
}  // namespace saccade::api
