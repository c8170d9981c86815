#include "api/requests/similarity.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <cmath>

namespace saccade::api {
namespace {

TEST(ScoreRequest, TakesOneForAllOrAsMany) {
  const auto one = parse_score_request(R"({"model": "m", "text_1": "a", "text_2": ["b", "c"]})");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->first.size(), 1u);
  EXPECT_EQ(one->second.at(1).text, "c");
  const auto pairs = parse_score_request(
      R"({"queries": ["a", "b"], "documents": ["c", {"text": "d"}], "strange": 1})");
  ASSERT_TRUE(pairs) << pairs.error().message;
  EXPECT_EQ(pairs->second.at(1).text, "d");
  EXPECT_EQ(pairs->unknown, std::vector<std::string>{"strange"});
  EXPECT_TRUE(parse_score_request(R"({"data_1": "a", "data_2": "b"})"));
}

TEST(RerankRequest, ReadsItsMembers) {
  const auto request = parse_rerank_request(
      R"({"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1, "return_documents": false,
          "truncate_prompt_tokens": -1})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->texts.first.at(0).text, "q");
  EXPECT_EQ(request->texts.second.size(), 2u);
  EXPECT_EQ(request->top_n, 1);
  EXPECT_FALSE(request->return_documents);
  EXPECT_EQ(request->texts.truncate_prompt_tokens, -1);
}

TEST(Similarity, RefusalsNameTheMember) {
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "text_1"},
           {R"({"text_1": "a"})", "text_2"},
           {R"({"text_1": 5, "text_2": "a"})", "text_1"},
           {R"({"text_1": [], "text_2": "a"})", "text_1"},
           {R"({"text_1": ["a", "b"], "text_2": ["a"]})", "text_1"},
           {R"({"text_1": "a", "queries": "a", "text_2": "a"})", "queries"},
           {R"({"text_1": "a", "text_2": [{"image_url": "x"}]})", "text_2"},
           {R"({"text_1": "a", "text_2": [{"text": "b", "image": "x"}]})", "text_2"}}) {
    const auto request = parse_score_request(body);
    ASSERT_FALSE(request) << body;
    EXPECT_EQ(request.error().param, param) << request.error().message;
  }
  for (const auto& [members, param] : std::vector<std::pair<std::string, std::string>>{
           {R"("query": "q")", "documents"},
           {R"("documents": ["a"])", "query"},
           {R"("query": ["q"], "documents": ["a"])", "query"},
           {R"("query": "q", "documents": "a")", "documents"},
           {R"("query": "q", "documents": [])", "documents"},
           {R"("query": "q", "documents": ["a"], "top_n": -1)", "top_n"},
           {R"("query": "q", "documents": ["a"], "return_documents": 1)", "return_documents"},
           {R"("query": "q", "documents": ["a"], "max_tokens_per_doc": 5)", "max_tokens_per_doc"},
           {R"("query": "q", "documents": ["a"], "rank_fields": ["x"])", "rank_fields"}}) {
    const auto request = parse_rerank_request("{" + members + "}");
    ASSERT_FALSE(request) << members;
    EXPECT_NE(request.error().message.find("'" + param + "'"), std::string::npos)
        << request.error().message;
  }
}

TEST(Similarity, CosinesAreOfDirections) {
  const std::vector<float> rows = {1, 0, 2, 0, 0, 3, -5, 0, 1, 1, 0, 0};
  const std::vector<double> scores = cosines(rows, 2, 1);
  ASSERT_EQ(scores.size(), 5u);
  EXPECT_EQ(scores[0], 1.0);
  EXPECT_EQ(scores[1], 0.0);
  EXPECT_EQ(scores[2], -1.0);
  EXPECT_NEAR(scores[3], std::sqrt(0.5), 1e-12);
  EXPECT_EQ(scores[4], 0.0);
  // As many as there are: each with its own.
  const std::vector<double> pairs = cosines(rows, 2, 3);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0], -1.0);
  EXPECT_NEAR(pairs[1], std::sqrt(0.5), 1e-12);
  const std::vector<float> crossed = {1, 0, 0, 1, 3, 0, 0, 2};
  EXPECT_EQ(cosines(crossed, 2, 2), (std::vector<double>{1, 1}));
}

// Text Embeddings Inference's members, and its answer.
TEST(RerankRequest, TextsAreAnsweredByAList) {
  const auto request = parse_rerank_request(R"({"query": "q", "texts": ["a", "b"]})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->as_list);
  EXPECT_EQ(rerank_response({}, *request, std::vector<double>{0.25, 0.5}, 9),
            R"([{"index":1,"score":0.5},{"index":0,"score":0.25}])");
  const auto shown = parse_rerank_request(R"({"query": "q", "texts": ["a"], "return_text": true})");
  EXPECT_EQ(rerank_response({}, *shown, std::vector<double>{0.5}, 9),
            R"([{"index":0,"text":"a","score":0.5}])");
}

TEST(RerankResponse, TheLikeliestComeFirst) {
  RerankRequest request;
  for (const char* text : {"a", "b", "c", "d"}) request.texts.second.push_back({false, text, {}});
  request.top_n = 3;
  const std::vector<double> scores = {0.25, 0.5, -1, 0.5};
  const auto answer =
      json::parse(rerank_response({"rerank-1", 7, "m"}, request, scores, 9)).value();
  const auto& results = answer.at("results").as_array();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].at("index").as_int64(), 1);
  EXPECT_EQ(results[1].at("index").as_int64(), 3);
  EXPECT_EQ(results[2].at("document").at("text").as_string(), "a");
  EXPECT_EQ(results[2].at("relevance_score").as_double(), 0.25);
  EXPECT_EQ(answer.at("usage").at("total_tokens").as_int64(), 9);
  request.return_documents = false;
  EXPECT_EQ(rerank_response({}, request, scores, 9).find("document"), std::string::npos);
}

}  // namespace
}  // namespace saccade::api
