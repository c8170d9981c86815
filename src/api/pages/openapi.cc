#include "api/pages/openapi.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <utility>

#include "api/pages/limits.h"
#include "api/requests/chat_request.h"
#include "api/requests/completion_request.h"
#include "api/requests/embeddings.h"
#include "api/requests/fields/fields.h"
#include "api/requests/messages_request.h"
#include "api/requests/response_request.h"
#include "api/requests/similarity.h"
#include "api/requests/tokenize_request.h"
#include "base/text/ascii.h"

namespace saccade::api {
namespace {

struct Member {
  std::string_view name;
  std::string_view types;
  std::string_view schema = {};  // of this one alone, before what holds for all
};

constexpr Member kSchemaMembers[] = {
    {"model", "s"},
    // What is asked.
    {"messages", "a"},
    {"prompt", "s", "TokenizeRequest"},
    {"prompt", "sa"},
    {"input", "sa"},
    {"instructions", "s"},
    {"previous_response_id", "s"},
    {"system", "sa"},
    {"tokens", "a"},
    {"text_1", "sao"},
    {"text_2", "sao"},
    {"queries", "sao"},
    {"items", "sao"},
    {"data_1", "sao"},
    {"data_2", "sao"},
    {"query", "so"},
    {"documents", "sao", "ScoreRequest"},
    {"documents", "a"},
    {"top_n", "i"},
    {"return_documents", "b"},
    {"texts", "a"},
    {"return_text", "b"},
    {"content", "s"},
    {"add_special", "b"},
    {"parse_special", "b"},
    {"task", "s"},
    // Sampling.
    {"temperature", "n"},
    {"top_p", "n"},
    {"top_k", "i"},
    {"min_p", "n"},
    {"repetition_penalty", "n"},
    {"presence_penalty", "n"},
    {"frequency_penalty", "n"},
    {"length_penalty", "n"},
    {"seed", "i"},
    {"n", "i"},
    {"best_of", "i"},
    {"max_tokens", "i"},
    {"max_completion_tokens", "i"},
    {"max_output_tokens", "i"},
    {"min_tokens", "i"},
    {"ignore_eos", "b"},
    {"stop", "sa"},
    {"stop_sequences", "sa"},
    {"stop_token_ids", "a"},
    {"include_stop_str_in_output", "b"},
    {"no_stop_trim", "b"},
    {"skip_special_tokens", "b"},
    {"logit_bias", "o"},
    {"bad_words", "a"},
    {"allowed_token_ids", "a"},
    {"logprob_token_ids", "a"},
    {"truncate_prompt_tokens", "i"},
    {"truncation_side", "s"},
    // The answer's form.
    {"response_format", "o"},
    {"structured_outputs", "o"},
    {"guided_json", ""},
    {"guided_regex", ""},
    {"guided_choice", ""},
    {"guided_grammar", ""},
    {"json_schema", ""},
    {"grammar", ""},
    {"regex", ""},
    {"ebnf", ""},
    {"text", "o"},
    {"output_config", "o"},
    {"output_format", "o"},
    {"logprobs", "i", "CompletionRequest"},
    {"logprobs", "b"},
    {"top_logprobs", "i"},
    {"use_beam_search", "b"},
    {"prompt_logprobs", "i"},
    {"include", "a"},
    {"echo", "b"},
    {"encoding_format", "s"},
    {"dimensions", "i"},
    {"normalize", "b"},
    {"return_token_strs", "b"},
    // Tools and thoughts.
    {"tools", "a"},
    {"tool_choice", "o", "MessagesRequest"},
    {"tool_choice", "o", "CountTokensRequest"},
    {"tool_choice", "so"},
    {"parallel_tool_calls", "b"},
    {"thinking", "o"},
    {"reasoning", "o"},
    {"separate_reasoning", "b"},
    {"stream_reasoning", "b"},
    {"include_reasoning", "b"},
    // How the prompt is made.
    {"add_generation_prompt", "b"},
    {"continue_final_message", "b"},
    {"add_special_tokens", "b"},
    {"chat_template", "s"},
    {"chat_template_kwargs", "o"},
    {"mm_processor_kwargs", "o"},
    {"media_io_kwargs", "o"},
    {"min_pixels", "i"},
    {"max_pixels", "i"},
    {"modalities", ""},
    // How the answer comes.
    {"stream", "b"},
    {"stream_options", "o"},
    {"metrics", "b"},
    {"return_token_ids", "b"},
    {"return_tokens_as_token_ids", "b"},
    {"request_id", "s"},
    {"cache_salt", "", "EmbeddingRequest"},
    {"cache_salt", "", "PoolingRequest"},
    {"cache_salt", "", "ScoreRequest"},
    {"cache_salt", "", "RerankRequest"},
    {"priority", "", "EmbeddingRequest"},
    {"priority", "", "PoolingRequest"},
    {"priority", "", "ScoreRequest"},
    {"priority", "", "RerankRequest"},
    {"priority", "i"},
    {"cache_salt", "s"},
    {"ttft_slo_ms", "i"},
    {"store", "b", "ResponseRequest"},
    {"metadata", "o", "ResponseRequest"},
    {"metadata", "o", "MessagesRequest"},
    {"metadata", "o", "CountTokensRequest"},
    {"user", "s", "ResponseRequest"},
    {"truncation", "s"},
    // Taken, and without effect.
    {"store", ""},
    {"metadata", ""},
    {"user", ""},
    {"service_tier", ""},
    {"safety_identifier", ""},
    {"prompt_cache_key", ""},
    {"prompt_cache_retention", ""},
    {"prompt_cache_options", ""},
    {"early_stopping", ""},
    {"spaces_between_special_tokens", ""},
    {"stream_interval", ""},
    {"vllm_xargs", ""},
    {"return_prompt_text", "b", "ChatCompletionRequest"},
    {"return_prompt_text", ""},
    {"session_id", ""},
    {"verbosity", "", "CompletionRequest"},
    {"verbosity", "s"},
    {"reasoning_effort", "", "CompletionRequest"},
    {"reasoning_effort", "s"},
    {"return_token_offsets", ""},
    {"return_mm_kwargs", ""},
    {"mm_payload", ""},
    {"billing_policy", ""},
    {"fallbacks", ""},
    {"fallback_credit_token", ""},
    {"access_programs", ""},
    {"guided_decoding_backend", ""},
    {"cache_control", ""},
    {"inference_geo", ""},
    {"speed", ""},
    {"user_profile_id", ""},
    {"workspace_id", ""},
    {"diagnostics", ""},
    {"betas", ""},
    {"use_activation", ""},
    {"padding", "s"},
    {"activation", ""},
    {"softmax", ""},
};

// What is taken of a number; `most` not above `least`: no bound above.
struct Range {
  std::string_view name;
  double least = 0;
  double most = 0;
  bool excludes = false;  // `least` itself
};
constexpr Range kRanges[] = {
    {"temperature", 0},
    {"top_p", 0, 1, true},
    {"min_p", 0, 1},
    {"presence_penalty", -2, 2},
    {"frequency_penalty", -2, 2},
    {"repetition_penalty", 0, 0, true},
    {"n", 1, static_cast<double>(limits::kChoices.most)},
    {"min_tokens", 0},
};

struct Endpoint {
  std::string_view path;
  std::string_view summary;
  std::string_view schema = {};  // of the body
};

constexpr Endpoint kEndpoints[] = {
    {"/v1/chat/completions", "An answer to a conversation", "ChatCompletionRequest"},
    {"/v1/completions", "A text that goes on", "CompletionRequest"},
    {"/v1/responses", "An answer in OpenAI's Responses API", "ResponseRequest"},
    {"/chat/completions", "An answer to a conversation", "ChatCompletionRequest"},
    {"/completions", "A text that goes on", "CompletionRequest"},
    {"/responses", "An answer in OpenAI's Responses API", "ResponseRequest"},
    {"/v1/chat/completions/batch", "Answers to conversations, as choices of one"},
    {"/pooling", "Embeddings of texts, as vLLM's pooling", "PoolingRequest"},
    {"/tokenizer_info", "tokenizer_config.json, with the chat template in use"},
    {"/props", "What llama-server's clients ask of a server"},
    {"/slots", "Places of requests that run, in llama-server's shape"},
    {"/invocations", "A conversation or a text, as the body is", ""},
    {"/v1/responses/input_tokens", "How many tokens such a request has", "ResponseRequest"},
    {"/v1/responses/{id}", "A stored response"},
    {"/v1/responses/{id}/input_items", "What a stored response answered"},
    {"/v1/responses/{id}/cancel", "Refused: no response runs in the background"},
    {"/v1/messages", "An answer in Anthropic's Messages API", "MessagesRequest"},
    {"/v1/messages/count_tokens", "How many tokens such a request has", "CountTokensRequest"},
    {"/v1/embeddings", "Embeddings of texts", "EmbeddingRequest"},
    {"/embeddings", "Embeddings of texts", "EmbeddingRequest"},
    {"/v1/score", "How alike texts are", "ScoreRequest"},
    {"/score", "How alike texts are", "ScoreRequest"},
    {"/v1/rerank", "Documents by their likeness to a query", "RerankRequest"},
    {"/v2/rerank", "Documents by their likeness to a query", "RerankRequest"},
    {"/rerank", "Documents by their likeness to a query", "RerankRequest"},
    {"/reranking", "Documents by their likeness to a query", "RerankRequest"},
    {"/v1/reranking", "Documents by their likeness to a query", "RerankRequest"},
    {"/v1/load_lora_adapter", "Makes an adapter one of the models"},
    {"/v1/unload_lora_adapter", "Takes it away again"},
    {"/tokenize", "The tokens of a prompt or a conversation", "TokenizeRequest"},
    {"/detokenize", "The text of tokens", "DetokenizeRequest"},
    {"/v1/models", "The models that are served"},
    {"/models", "The models that are served"},
    {"/v1/models/{id}", "One of them"},
    {"/health", "200 while requests are taken"},
    {"/ping", "200 while requests are taken"},
    {"/version", "Saccade's version"},
    {"/metrics", "Prometheus text"},
    {"/openapi.json", "This description"},
    {"/server_info", "What routers in front ask of a server"},
    {"/get_server_info", "What routers in front ask of a server"},
    {"/model_info", "What routers in front ask of its model"},
    {"/get_model_info", "What routers in front ask of its model"},
    {"/load", "Requests that are not yet answered"},
    {"/v1/loads", "Requests that run and wait"},
    {"/reset_prefix_cache", "Forgets cached prompts"},
    {"/reset_mm_cache", "Forgets cached images"},
    {"/start_profile", "Refused: there is no profiler"},
    {"/stop_profile", "Refused: there is no profiler"},
};

template <auto Parse>
Result<void> parse_example(std::string_view body) {
  TRY_DO(Parse(body).map([](auto&&) {}));
  return {};
}

std::vector<RequestSchema> ask_parsers() {
  constexpr std::string_view kChat = R"({"messages": [{"role": "user", "content": "x"}]})";
  std::vector<RequestSchema> schemas = {
      {"ChatCompletionRequest", kChat, parse_example<parse_chat_request>, {}},
      {"CompletionRequest", R"({"prompt": "x"})", parse_example<parse_completion_request>, {}},
      {"ResponseRequest", R"({"input": "x"})", parse_example<parse_response_request>, {}},
      {"MessagesRequest",
       R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1})",
       parse_example<parse_messages_request>,
       {}},
      {"CountTokensRequest", kChat, parse_example<parse_count_tokens_request>, {}},
      {"EmbeddingRequest", R"({"input": "x"})", parse_example<parse_embedding_request>, {}},
      {"PoolingRequest", R"({"input": "x"})", parse_example<parse_pooling_request>, {}},
      {"ScoreRequest", R"({"text_1": "x", "text_2": "x"})", parse_example<parse_score_request>, {}},
      {"RerankRequest",
       R"({"query": "x", "documents": ["x"]})",
       parse_example<parse_rerank_request>,
       {}},
      {"TokenizeRequest", R"({"prompt": "x"})", parse_example<parse_tokenize_request>, {}},
      {"DetokenizeRequest", R"({"tokens": [1]})", parse_example<parse_detokenize_request>, {}},
  };
  for (RequestSchema& schema : schemas) {
    AcceptedMembers accepted;
    if (schema.parse(schema.least)) schema.members = accepted.names();
  }
  return schemas;
}

// "/v1/models/" to "/v1/models/{id}".
std::string shown_path(std::string_view path) {
  return std::string(path) + (path.ends_with('/') ? "{id}" : "");
}

const Endpoint* endpoint_of(std::string_view path) {
  const auto found = std::ranges::find(kEndpoints, std::string_view(path), &Endpoint::path);
  return found == std::end(kEndpoints) ? nullptr : found;
}

std::string_view type_name(char letter) {
  switch (letter) {
    case 's':
      return "string";
    case 'i':
      return "integer";
    case 'n':
      return "number";
    case 'b':
      return "boolean";
    case 'a':
      return "array";
    default:
      return "object";
  }
}

json::value schema_of(const RequestSchema& schema) {
  json::object properties;
  for (const std::string& member : schema.members) {
    json::object described;
    const std::string_view types = types_of(schema.name, member).value_or("");
    if (!types.empty()) {
      json::array names;
      for (const char letter : types) names.emplace_back(json::string(type_name(letter)));
      names.emplace_back("null");
      described["type"] = std::move(names);
    }
    for (const Range& range : kRanges) {
      if (range.name != member) continue;
      described[range.excludes ? "exclusiveMinimum" : "minimum"] = range.least;
      if (range.most > range.least) described["maximum"] = range.most;
    }
    properties[member] = std::move(described);
  }
  json::object made{{"type", "object"}, {"properties", std::move(properties)}};
  // A conversation may stand for the prompt.
  if (schema.name == "TokenizeRequest") return made;
  json::array required;
  const auto least = json::parse(schema.least);
  for (const auto& member : least->get_object()) required.emplace_back(member.key());
  made["required"] = std::move(required);
  return made;
}

json::object operation_of(const OpenApiRoute& route, const Endpoint* endpoint, bool has_id) {
  json::object operation;
  if (endpoint != nullptr) operation["summary"] = json::string(endpoint->summary);
  if (has_id)
    operation["parameters"] =
        json::array{json::object{{"name", "id"},
                                 {"in", "path"},
                                 {"required", true},
                                 {"schema", json::object{{"type", "string"}}}}};
  json::object responses;
  if (route.is_refusal) {
    responses["400"] = json::object{{"description", "This model does not do it"}};
  } else {
    responses["200"] = json::object{{"description", "Done"}};
    responses["default"] = json::object{{"description", "An error, as docs/api.md has it"}};
    if (route.needs_key) operation["security"] = json::array{json::object{{"key", json::array()}}};
    if (endpoint != nullptr && !endpoint->schema.empty() && route.method == "POST") {
      const json::object body{
          {"schema",
           json::object{{"$ref", fmt::format("#/components/schemas/{}", endpoint->schema)}}}};
      operation["requestBody"] =
          json::object{{"required", true}, {"content", json::object{{"application/json", body}}}};
    }
  }
  operation["responses"] = std::move(responses);
  return operation;
}

}  // namespace

const std::vector<RequestSchema>& request_schemas() {
  static const std::vector<RequestSchema> schemas = ask_parsers();
  return schemas;
}

std::optional<std::string_view> types_of(std::string_view schema, std::string_view member) {
  for (const Member& one : kSchemaMembers) {
    if (one.name == member && (one.schema.empty() || one.schema == schema)) return one.types;
  }
  return std::nullopt;
}

std::string_view summary_of(std::string_view path) {
  const Endpoint* endpoint = endpoint_of(shown_path(path));
  return endpoint == nullptr ? std::string_view() : endpoint->summary;
}

std::string openapi_document(std::span<const OpenApiRoute> routes, std::string_view version) {
  json::object paths;
  for (const OpenApiRoute& route : routes) {
    const std::string path = shown_path(route.path);
    json::value& methods = paths[path];
    if (methods.is_null()) methods = json::object();
    methods.get_object()[ascii::lower(route.method)] =
        operation_of(route, endpoint_of(path), path.find('{') != std::string::npos);
  }
  json::object schemas;
  for (const RequestSchema& schema : request_schemas()) schemas[schema.name] = schema_of(schema);
  const json::object document{
      {"openapi", "3.1.0"},
      {"info", json::object{{"title", "Saccade"}, {"version", json::string(version)}}},
      {"paths", std::move(paths)},
      {"components",
       json::object{
           {"schemas", std::move(schemas)},
           {"securitySchemes",
            json::object{{"key", json::object{{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  std::string text;
  json::JsonWriter(text).value(json::value(document));
  return text;
}

}  // namespace saccade::api
