#include "serve/embedding_service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/requests/tokenize_request.h"
#include "base/log.h"
#include "serve/handlers/detokenize.h"
#include "serve/handlers/metrics_text.h"

namespace saccade::serve {

EmbeddingService::EmbeddingService(const ServeSettings& settings, const SentenceEncoder& encoder,
                                   std::shared_ptr<const Tokenizer> tokenizer,
                                   EmbeddingEngine& engine, const Clock& clock)
    : settings_(settings),
      encoder_(encoder),
      tokenizer_(std::move(tokenizer)),
      engine_(engine),
      clock_(clock),
      started_at_(wall_clock_now() / kSecond),
      router_(settings, clock) {
  add_routes();
}

void EmbeddingService::add_routes() {
  const auto work = [this](std::string_view path, auto handler) {
    router_.add_work(path, *this, handler);
  };
  for (const std::string_view path : {"/v1/embeddings", "/embeddings"})
    work(path, &EmbeddingService::embeddings);
  work("/pooling", &EmbeddingService::pooling);
  work("/invocations", &EmbeddingService::invocations);
  for (const std::string_view path : api::kScorePaths) work(path, &EmbeddingService::score);
  for (const std::string_view path : api::kRerankPaths) work(path, &EmbeddingService::rerank);
  router_.add_refusal("/v1/chat/completions", "Chat Completions");
  router_.add_refusal("/v1/completions", "Completions");
  router_.add_refusal("/v1/responses", "Responses");
  for (const std::string_view path : {"/v1/messages", "/v1/messages/count_tokens"})
    router_.add_refusal(path, "Messages", api::ErrorShape::kMessages);
  router_.add_json("POST", "/tokenize", true,
                   [this](const net::HttpRequest& request) { return tokenize(request); });
  router_.add_json("POST", "/detokenize", true, [this](const net::HttpRequest& request) {
    return detokenized(request.body, *tokenizer_, router_);
  });
  router_.add_status_routes([this] {
    std::vector<api::ModelCard> cards;
    for (const auto& name : settings_.served_model_name)
      cards.push_back(
          {name, started_at_, settings_.model, engine_.settings().max_tokens, false, 0, true});
    return cards;
  });
  router_.add_info_routes(
      {.generates = false, .max_model_len = engine_.settings().max_tokens}, [this] {
        const EmbeddingStats stats = engine_.stats();
        return api::ServerLoad{stats.running,
                               stats.waiting + static_cast<std::int64_t>(router_.preparing()), 0};
      });
  router_.add_metrics([this] { return metrics(); });
}

Result<void> EmbeddingService::add_ids(std::span<const api::CompletionPrompt> inputs,
                                       std::optional<std::int64_t> truncate,
                                       bool add_special_tokens,
                                       std::vector<std::vector<TokenId>>& all) const {
  std::int64_t most = 0;  // 0: nothing is cut
  if (truncate) {
    most = *truncate;
    const std::int64_t limit = engine_.settings().max_tokens;
    if (most == -1) most = limit;
    if (most < 1 || most > limit)
      return fail(Error{ErrorCode::kInvalid,
                        fmt::format("truncate_prompt_tokens is {}, it must be -1 or between 1 and "
                                    "{}, the most that the model takes",
                                    *truncate, limit),
                        "truncate_prompt_tokens"});
  }
  for (const api::CompletionPrompt& prompt : inputs) {
    std::vector<TokenId> ids;
    if (prompt.is_tokens) {
      for (const std::int64_t id : prompt.tokens) {
        if (id < 0 || id >= encoder_.shape().vocab)
          return fail(Error{ErrorCode::kInvalid,
                            fmt::format("token id {} is outside the vocabulary of {}", id,
                                        encoder_.shape().vocab),
                            "input"});
        ids.push_back(static_cast<TokenId>(id));
      }
    } else {
      ids = encoder_.tokenize(*tokenizer_, prompt.text, add_special_tokens);
    }
    if (most > 0) encoder_.truncate(*tokenizer_, ids, most);
    all.push_back(std::move(ids));
  }
  return {};
}

Result<void> EmbeddingService::embeddings(const net::HttpRequest& request, const Reply& reply) {
  TRY(const api::EmbeddingRequest embedding, api::parse_embedding_request(request.body));
  return answer_rows(embedding, "embd-", &api::embedding_response, reply);
}

Result<void> EmbeddingService::pooling(const net::HttpRequest& request, const Reply& reply) {
  TRY(const api::EmbeddingRequest embedding, api::parse_pooling_request(request.body));
  return answer_rows(embedding, "pool-", &api::pooling_response, reply);
}

// SageMaker's one path: what is asked is told by the members.
Result<void> EmbeddingService::invocations(const net::HttpRequest& request, const Reply& reply) {
  TRY(const json::value body, api::parse_body(request.body));
  const auto has = [&](std::string_view name) {
    return json::find(body.get_object(), name) != nullptr;
  };
  if (has("query")) return rerank(request, reply);
  if (has("text_1") || has("queries") || has("data_1")) return score(request, reply);
  return has("task") ? pooling(request, reply) : embeddings(request, reply);
}

Result<void> EmbeddingService::answer_rows(const api::EmbeddingRequest& embedding,
                                           std::string_view prefix, WriteRows* write,
                                           const Reply& reply) {
  TRY_DO(router_.check_model(embedding.model));
  router_.warn_unknown(embedding.unknown);
  if (embedding.dimensions && *embedding.dimensions != encoder_.shape().dimensions) {
    return fail(Error{
        ErrorCode::kInvalid,
        fmt::format("dimensions is {}; the model has {} and is not trained to be cut (it does not "
                    "support matryoshka representation)",
                    *embedding.dimensions, encoder_.shape().dimensions),
        "dimensions"});
  }
  std::vector<std::vector<TokenId>> inputs;
  TRY_DO(add_ids(embedding.inputs, embedding.truncate_prompt_tokens, embedding.add_special_tokens,
                 inputs));
  const api::AnswerHead head = router_.head(prefix, embedding.request_id, embedding.model);
  return embed(head, std::move(inputs), reply,
               [head, write, format = embedding.format, width = encoder_.shape().dimensions](
                   const std::vector<float>& rows, std::int64_t tokens) {
                 return write(head, rows, width, format, tokens);
               });
}

Result<std::vector<std::vector<TokenId>>> EmbeddingService::ids_of(
    const api::SimilarityRequest& request) const {
  TRY_DO(router_.check_model(request.model));
  std::vector<std::vector<TokenId>> inputs;
  for (const auto* texts : {&request.first, &request.second})
    TRY_DO(add_ids(*texts, request.truncate_prompt_tokens, true, inputs));
  return inputs;
}

Result<void> EmbeddingService::score(const net::HttpRequest& request, const Reply& reply) {
  TRY(const api::SimilarityRequest asked, api::parse_score_request(request.body));
  router_.warn_unknown(asked.unknown);
  TRY(std::vector<std::vector<TokenId>> inputs, ids_of(asked));
  const api::AnswerHead head = router_.head("score-", asked.request_id, asked.model);
  return embed(head, std::move(inputs), reply,
               [head, first = asked.first.size(), width = encoder_.shape().dimensions](
                   const std::vector<float>& rows, std::int64_t tokens) {
                 return api::score_response(head, api::cosines(rows, width, first), tokens);
               });
}

Result<void> EmbeddingService::rerank(const net::HttpRequest& request, const Reply& reply) {
  TRY(api::RerankRequest asked, api::parse_rerank_request(request.body));
  router_.warn_unknown(asked.texts.unknown);
  TRY(std::vector<std::vector<TokenId>> inputs, ids_of(asked.texts));
  const api::AnswerHead head = router_.head("rerank-", asked.texts.request_id, asked.texts.model);
  const auto kept = std::make_shared<const api::RerankRequest>(std::move(asked));
  return embed(head, std::move(inputs), reply,
               [head, kept, width = encoder_.shape().dimensions](const std::vector<float>& rows,
                                                                 std::int64_t tokens) {
                 return api::rerank_response(head, *kept, api::cosines(rows, width, 1), tokens);
               });
}

Result<void> EmbeddingService::embed(const api::AnswerHead& head,
                                     std::vector<std::vector<TokenId>> inputs, const Reply& reply,
                                     Write write) {
  std::int64_t tokens = 0;
  for (const auto& ids : inputs) tokens += static_cast<std::int64_t>(ids.size());
  if (settings_.log_requests) log::info("{}: {} inputs, {} tokens", head.id, inputs.size(), tokens);

  ++*unfinished_;
  // Counts out whoever leaves unheard; the engine's last jobs outlive this service.
  const std::shared_ptr<void> ended(nullptr, [count = unfinished_](void*) { --*count; });
  auto sink = [this, write = std::move(write), tokens, reply,
               ended](const std::vector<float>& rows) {
    if (!std::ranges::all_of(rows, [](float value) { return std::isfinite(value); }))
      return router_.respond_error(
          reply, Error{ErrorCode::kInternal, "the embedding has a value that is not finite", {}});
    router_.respond(reply, json_response(write(rows, tokens)));
  };
  TRY(const RequestId id, engine_.submit(std::move(inputs), std::move(sink)));
  reply.to.on_disconnect([this, id] { engine_.cancel(id); });
  return {};
}

Result<std::string> EmbeddingService::tokenize(const net::HttpRequest& request) {
  TRY(const api::TokenizeRequest tokenize, api::parse_tokenize_request(request.body));
  TRY_DO(router_.check_model(tokenize.model));
  router_.warn_unknown(tokenize.unknown);
  if (tokenize.chat)
    return fail(
        Error{ErrorCode::kInvalid, "this model has no chat template: give 'prompt'", "messages"});
  if (!tokenize.parse_special_tokens)
    return fail(Error{ErrorCode::kInvalid,
                      "'parse_special' is false: a sentence encoder reads the names of its special "
                      "tokens as those tokens",
                      "parse_special"});
  const std::vector<TokenId> ids =
      encoder_.tokenize(*tokenizer_, tokenize.prompt.value_or(""), tokenize.add_special_tokens);
  std::vector<std::string> strings;
  if (tokenize.return_token_strs)
    for (const TokenId id : ids) strings.emplace_back(tokenizer_->piece(id));
  return api::tokenize_response(ids, engine_.settings().max_tokens,
                                tokenize.return_token_strs ? &strings : nullptr, {});
}

std::string EmbeddingService::metrics() const {
  const EmbeddingStats s = engine_.stats();
  MetricsText page(settings_.served_model_name.front());
  page.gauge("vllm:num_requests_running", "Texts in the running batch.",
             static_cast<double>(s.running));
  page.gauge("vllm:num_requests_waiting", "Texts waiting, including requests being prepared.",
             static_cast<double>(s.waiting) + static_cast<double>(router_.preparing()));
  page.counter("vllm:prompt_tokens_total", "Tokens embedded.",
               static_cast<double>(s.prompt_tokens));
  page.counter("saccade:embedded_texts_total", "Texts embedded.", static_cast<double>(s.sequences));
  page.counter("saccade:steps_total", "Forward passes of the encoder.",
               static_cast<double>(s.steps));
  page.counter("saccade:requests_rejected_total", "Requests refused because the queue was full.",
               static_cast<double>(s.rejections));
  return page.text();
}

}  // namespace saccade::serve
