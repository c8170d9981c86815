#include "serve/embedding_service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/tokenize_request.h"
#include "base/log.h"
#include "serve/detokenize.h"
#include "serve/metrics_text.h"

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
  router_.add({"POST", "/v1/embeddings",
               [this](const net::HttpRequest& request, const Reply& reply) {
                 const auto done = embeddings(request, reply);
                 if (!done) router_.respond_error(reply, done.error());
               },
               true, true});
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
          {name, started_at_, settings_.model, encoder_.shape().max_tokens, false, 0, true});
    return cards;
  });
  router_.add_info_routes(
      {.generates = false, .max_model_len = encoder_.shape().max_tokens}, [this] {
        const EmbeddingStats stats = engine_.stats();
        return api::ServerLoad{stats.running,
                               stats.waiting + static_cast<std::int64_t>(router_.preparing()), 0};
      });
  router_.add({"GET", "/metrics", [this](const net::HttpRequest&, const Reply& reply) {
                 router_.respond(reply,
                                 {200, "text/plain; version=0.0.4; charset=utf-8", metrics(), {}});
               }});
}

Result<std::vector<std::vector<TokenId>>> EmbeddingService::input_ids(
    const api::EmbeddingRequest& request) const {
  std::int64_t most = 0;  // 0: nothing is cut
  if (request.truncate_prompt_tokens) {
    most = *request.truncate_prompt_tokens;
    const std::int64_t limit = encoder_.shape().max_tokens;
    if (most == -1) most = limit;
    if (most < 1 || most > limit)
      return fail(Error{ErrorCode::kInvalid,
                        fmt::format("truncate_prompt_tokens is {}, it must be -1 or between 1 and "
                                    "{}, the most that the model takes",
                                    *request.truncate_prompt_tokens, limit),
                        "truncate_prompt_tokens"});
  }
  std::vector<std::vector<TokenId>> inputs;
  for (const api::CompletionPrompt& prompt : request.inputs) {
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
      ids = encoder_.tokenize(*tokenizer_, prompt.text, request.add_special_tokens);
    }
    if (most > 0) encoder_.truncate(*tokenizer_, ids, most);
    inputs.push_back(std::move(ids));
  }
  return inputs;
}

Result<void> EmbeddingService::embeddings(const net::HttpRequest& request, const Reply& reply) {
  TRY(const api::EmbeddingRequest embedding, api::parse_embedding_request(request.body));
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
  TRY(std::vector<std::vector<TokenId>> inputs, input_ids(embedding));
  std::int64_t tokens = 0;
  for (const auto& ids : inputs) tokens += static_cast<std::int64_t>(ids.size());
  const api::AnswerHead head = router_.head("embd-", embedding.request_id, embedding.model);
  if (settings_.log_requests) log::info("{}: {} inputs, {} tokens", head.id, inputs.size(), tokens);

  ++*unfinished_;
  // Counts out whoever leaves unheard; the engine's last jobs outlive this service.
  const std::shared_ptr<void> ended(nullptr, [count = unfinished_](void*) { --*count; });
  auto sink = [this, head, format = embedding.format, tokens, reply, ended](
                  const std::vector<float>& rows) { answer(head, format, tokens, rows, reply); };
  TRY(const RequestId id, engine_.submit(std::move(inputs), std::move(sink)));
  reply.to.on_disconnect([this, id] { engine_.cancel(id); });
  return {};
}

void EmbeddingService::answer(const api::AnswerHead& head, api::EncodingFormat format,
                              std::int64_t prompt_tokens, const std::vector<float>& rows,
                              const Reply& reply) {
  if (!std::ranges::all_of(rows, [](float value) { return std::isfinite(value); })) {
    return router_.respond_error(
        reply, Error{ErrorCode::kInternal, "the embedding has a value that is not finite", {}});
  }
  router_.respond(reply, json_response(api::embedding_response(
                             head, rows, encoder_.shape().dimensions, format, prompt_tokens)));
}

Result<std::string> EmbeddingService::tokenize(const net::HttpRequest& request) const {
  TRY(const api::TokenizeRequest tokenize, api::parse_tokenize_request(request.body));
  TRY_DO(router_.check_model(tokenize.model));
  if (tokenize.chat)
    return fail(
        Error{ErrorCode::kInvalid, "this model has no chat template: give 'prompt'", "messages"});
  const std::vector<TokenId> ids =
      encoder_.tokenize(*tokenizer_, tokenize.prompt.value_or(""), tokenize.add_special_tokens);
  std::vector<std::string> strings;
  if (tokenize.return_token_strs)
    for (const TokenId id : ids) strings.emplace_back(tokenizer_->piece(id));
  return api::tokenize_response(ids, encoder_.shape().max_tokens,
                                tokenize.return_token_strs ? &strings : nullptr, {});
}

std::string EmbeddingService::metrics() const {
  const EmbeddingStats s = engine_.stats();
  MetricsText page(settings_.served_model_name.front());
  page.gauge("vllm:num_requests_running", "Texts in the running batch.",
             static_cast<double>(s.running));
  page.gauge("vllm:num_requests_waiting", "Texts that wait, requests being prepared included.",
             static_cast<double>(s.waiting) + static_cast<double>(router_.preparing()));
  page.counter("vllm:prompt_tokens_total", "Tokens that were embedded.",
               static_cast<double>(s.prompt_tokens));
  page.counter("saccade:embedded_texts_total", "Texts that were embedded.",
               static_cast<double>(s.sequences));
  page.counter("saccade:steps_total", "Forwards of the encoder.", static_cast<double>(s.steps));
  page.counter("saccade:requests_rejected_total", "Requests refused because the queue was full.",
               static_cast<double>(s.rejections));
  return page.text();
}

}  // namespace saccade::serve
