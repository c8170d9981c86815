// POST /v1/score and /v1/rerank (also /score, /rerank, /v2/rerank): how alike texts are, by the
// cosine of their embeddings. vLLM's, Jina's and Cohere's shapes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/answers/responses.h"
#include "api/requests/fields/prompt_field.h"
#include "base/result.h"

namespace saccade::api {

inline constexpr std::array<std::string_view, 2> kScorePaths = {"/score", "/v1/score"};
inline constexpr std::array<std::string_view, 5> kRerankPaths = {
    "/rerank", "/v1/rerank", "/v2/rerank", "/reranking", "/v1/reranking"};

// Which texts are compared: `first` holds one for all of `second`, or as many.
struct SimilarityRequest {
  std::string model;                                   // empty when absent
  std::vector<CompletionPrompt> first;                 // texts
  std::vector<CompletionPrompt> second;                // texts
  std::optional<std::int64_t> truncate_prompt_tokens;  // -1: to what the model takes
  std::string request_id;
  std::vector<std::string> unknown;
};

// text_1 and text_2, or under vLLM's other names: queries and documents or items, data_1 and
// data_2.
Result<SimilarityRequest> parse_score_request(std::string_view body);

struct RerankRequest {
  SimilarityRequest texts;  // the query, and the documents
  std::int64_t top_n = 0;   // of the results; 0: all
  bool return_documents = true;
  bool as_list = false;  // TEI's shapes: `texts` in, a bare list out
};
Result<RerankRequest> parse_rerank_request(std::string_view body);

// `rows`: [first + second, dimensions], embeddings of all texts in their order. One cosine for each
// of `second`; where a row is all zeros it is 0.
std::vector<double> cosines(std::span<const float> rows, std::int64_t dimensions,
                            std::size_t first);

std::string score_response(const AnswerHead& head, std::span<const double> scores,
                           std::int64_t prompt_tokens);
// The likeliest first, the earlier of equals.
std::string rerank_response(const AnswerHead& head, const RerankRequest& request,
                            std::span<const double> scores, std::int64_t prompt_tokens);

}  // namespace saccade::api
