// The OpenAI API over a sentence encoder: /v1/embeddings, scores of likeness, and what goes with
// it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/requests/embeddings.h"
#include "api/requests/similarity.h"
#include "engine/embedding_engine.h"
#include "serve/assembly/drainable.h"
#include "serve/router.h"
#include "serve/settings.h"
#include "text/tokenizer.h"

namespace saccade::serve {

// Handlers run on the router's workers, answers are written on the engine thread.
class EmbeddingService final : public Drainable {
 public:
  EmbeddingService(const ServeSettings& settings, const SentenceEncoder& encoder,
                   std::shared_ptr<const Tokenizer> tokenizer, EmbeddingEngine& engine,
                   const Clock& clock);

  Router& router() { return router_; }
  std::size_t unfinished() override { return *unfinished_; }

 private:
  void add_routes();
  Result<void> embeddings(const net::HttpRequest& request, const Reply& reply);
  Result<void> pooling(const net::HttpRequest& request, const Reply& reply);
  Result<void> invocations(const net::HttpRequest& request, const Reply& reply);
  // Of both; `write` is one of api's.
  using WriteRows = decltype(api::embedding_response);
  Result<void> answer_rows(const api::EmbeddingRequest& embedding, std::string_view prefix,
                           WriteRows* write, const Reply& reply);
  Result<std::string> tokenize(const net::HttpRequest& request);
  Result<void> score(const net::HttpRequest& request, const Reply& reply);
  Result<void> rerank(const net::HttpRequest& request, const Reply& reply);
  // Ids of every input, cut to `truncate` where it is set, behind what is in `ids`.
  Result<void> add_ids(std::span<const api::CompletionPrompt> inputs,
                       std::optional<std::int64_t> truncate, bool add_special_tokens,
                       std::vector<std::vector<TokenId>>& ids) const;
  // Of the texts of a request, first and second.
  Result<std::vector<std::vector<TokenId>>> ids_of(const api::SimilarityRequest& request) const;
  // Answers with what `write` makes of the rows, which are finite: one of each input.
  using Write = std::function<std::string(const std::vector<float>& rows, std::int64_t tokens)>;
  Result<void> embed(const api::AnswerHead& head, std::vector<std::vector<TokenId>> inputs,
                     const Reply& reply, Write write);
  std::string metrics() const;

  const ServeSettings& settings_;
  const SentenceEncoder& encoder_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  EmbeddingEngine& engine_;
  const Clock& clock_;
  const std::int64_t started_at_;  // Unix seconds
  const std::shared_ptr<std::atomic<std::size_t>> unfinished_ =
      std::make_shared<std::atomic<std::size_t>>(0);
  Router router_;  // last: its jobs use everything above
};

}  // namespace saccade::serve
