#include "api/requests/embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "api/requests/similarity.h"
#include "base/text/base64.h"

namespace saccade::api {
namespace {

using ::testing::HasSubstr;

EmbeddingRequest parsed_embedding(std::string_view body) {
  auto request = parse_embedding_request(body);
  EXPECT_TRUE(request) << request.error().message;
  return request ? *std::move(request) : EmbeddingRequest{};
}

Error refused(std::string_view body) {
  const auto request = parse_embedding_request(body);
  EXPECT_FALSE(request) << body;
  return request ? Error{} : request.error();
}

TEST(EmbeddingRequest, TakesAllFourFormsOfInput) {
  EXPECT_EQ(parsed_embedding(R"({"input": "a text"})").inputs.at(0).text, "a text");
  EXPECT_EQ(parsed_embedding(R"({"input": ["a", ""]})").inputs.size(), 2U);
  const auto ids = parsed_embedding(R"({"input": [1, 2, 3]})").inputs;
  ASSERT_EQ(ids.size(), 1U);
  EXPECT_TRUE(ids[0].is_tokens);
  EXPECT_EQ(ids[0].tokens, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(parsed_embedding(R"({"input": [[1], [2, 3]]})").inputs.at(1).tokens.size(), 2U);
}

TEST(EmbeddingRequest, ReadsItsMembers) {
  const auto request = parsed_embedding(
      R"({"model": "m", "input": "x", "encoding_format": "base64", "dimensions": 8,
          "truncate_prompt_tokens": -1, "add_special_tokens": false, "user": "u", "strange": 1})");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.format, EncodingFormat::kBase64);
  EXPECT_EQ(request.dimensions, 8);
  EXPECT_EQ(request.truncate_prompt_tokens, -1);
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_EQ(request.unknown, std::vector<std::string>{"strange"});
}

TEST(EmbeddingRequest, RefusalsNameTheMember) {
  EXPECT_EQ(refused("{}").param, "input");
  EXPECT_EQ(refused(R"({"input": []})").param, "input");
  EXPECT_EQ(refused(R"({"input": 7})").param, "input");
  EXPECT_THAT(refused(R"({"input": ["a", [1]]})").message, HasSubstr("mixes"));
  EXPECT_THAT(refused(R"({"input": [1, "a"]})").message, HasSubstr("holds"));
  EXPECT_EQ(refused(R"({"input": "a", "encoding_format": "int8"})").param, "encoding_format");
  EXPECT_EQ(refused(R"({"input": "a", "dimensions": 0})").param, "dimensions");
  EXPECT_EQ(refused(R"({"input": "a", "truncation_side": "left"})").param, "truncation_side");
  EXPECT_TRUE(parse_embedding_request(R"({"input": "a", "truncation_side": "right"})"));
  EXPECT_FALSE(parse_score_request(R"({"text_1": "a", "text_2": "b", "truncation_side": "left"})"));
  EXPECT_TRUE(parse_score_request(R"({"text_1": "a", "text_2": "b", "truncation_side": "right"})"));
  EXPECT_EQ(refused(R"({"input": "a", "truncate_prompt_tokens": -2})").param,
            "truncate_prompt_tokens");
  for (const std::string name : {"normalize", "use_activation"}) {
    EXPECT_EQ(refused(R"({"input": "a", ")" + name + "\": false}").param, name);
    EXPECT_TRUE(parse_embedding_request(R"({"input": "a", ")" + name + "\": true}")) << name;
  }
  EXPECT_EQ(refused(R"({"input": "a", "padding": "max_length"})").param, "padding");
  EXPECT_TRUE(parse_embedding_request(R"({"input": "a", "padding": "do_not_pad"})"));
  EXPECT_EQ(refused(R"({"messages": [{"role": "user", "content": "x"}]})").param, "messages");
  std::string many = R"({"input": ["")";
  for (int i = 0; i < 2048; ++i) many += ",\"\"";
  EXPECT_THAT(refused(many + "]}").message, HasSubstr("2049"));
}

constexpr std::array kValues = {0.1f, -2.5f, 3e-8f, 4.0f};

TEST(EmbeddingResponse, FloatsReadBackAsTheSame) {
  const std::string body =
      embedding_response({"embd-1", 5, "m"}, kValues, 2, EncodingFormat::kFloat, 9);
  EXPECT_THAT(body, HasSubstr(R"({"id":"embd-1","object":"list","created":5,"model":"m","data":[)"
                              R"({"index":0,"object":"embedding","embedding":[0.1,-2.5]},)"));
  EXPECT_THAT(body, HasSubstr(R"("usage":{"prompt_tokens":9,"total_tokens":9,)"));
  const auto tree = json::parse(body);
  ASSERT_TRUE(tree) << tree.error().message;
  const auto& row = tree->at("data").at(1).at("embedding").as_array();
  EXPECT_EQ(static_cast<float>(row[0].to_number<double>()), kValues[2]);
  EXPECT_EQ(static_cast<float>(row[1].to_number<double>()), kValues[3]);
}

TEST(EmbeddingResponse, Base64IsLittleEndianFloats) {
  const std::string body =
      embedding_response({"embd-1", 5, "m"}, kValues, 4, EncodingFormat::kBase64, 9);
  const auto tree = json::parse(body).value();
  const auto bytes =
      base64_decode(std::string_view(tree.at("data").at(0).at("embedding").as_string()));
  ASSERT_TRUE(bytes);
  std::array<float, 4> values{};
  ASSERT_EQ(bytes->size(), sizeof values);
  std::memcpy(values.data(), bytes->data(), bytes->size());
  EXPECT_EQ(values, kValues);
}

}  // namespace
}  // namespace saccade::api
