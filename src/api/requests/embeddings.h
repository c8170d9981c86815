// POST /v1/embeddings: the request as a plain struct, the answer as JSON. OpenAI's shapes with
// vLLM's extensions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/answers/responses.h"
#include "api/requests/fields/prompt_field.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

class Fields;

enum class EncodingFormat { kFloat, kBase64 };

struct EmbeddingRequest {
  std::string model;                     // empty when absent
  std::vector<CompletionPrompt> inputs;  // all four forms; at most 2048, as OpenAI has it
  EncodingFormat format = EncodingFormat::kFloat;
  std::optional<std::int64_t> dimensions;
  std::optional<std::int64_t> truncate_prompt_tokens;  // -1: to what the model takes
  bool add_special_tokens = true;
  std::string request_id;
  std::vector<std::string> unknown;
};

// Of every request for vectors: kInvalid where truncation_side is not "right", which is what is
// done.
Result<void> check_truncation_side(Fields& fields);

Result<EmbeddingRequest> parse_embedding_request(std::string_view body);

// POST /pooling, vLLM's: the same with a `task`, which has to be "embed" where it is given.
Result<EmbeddingRequest> parse_pooling_request(std::string_view body);

// `values`: [inputs, dimensions], finite. Base64 is of little-endian float32.
std::string embedding_response(const AnswerHead& head, std::span<const float> values,
                               std::int64_t dimensions, EncodingFormat format,
                               std::int64_t prompt_tokens);

std::string pooling_response(const AnswerHead& head, std::span<const float> values,
                             std::int64_t dimensions, EncodingFormat format,
                             std::int64_t prompt_tokens);

// The member `usage` of answers that have no tokens of their own.
void write_vector_usage(json::JsonWriter& w, std::int64_t prompt_tokens);

}  // namespace saccade::api
