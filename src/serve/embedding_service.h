// The OpenAI API over a sentence encoder: /v1/embeddings, and what goes with it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "api/embeddings.h"
#include "engine/embedding_engine.h"
#include "serve/router.h"
#include "serve/settings.h"
#include "text/tokenizer.h"

namespace saccade::serve {

// Handlers run on the router's workers, answers are written on the engine thread.
class EmbeddingService {
 public:
  EmbeddingService(const ServeSettings& settings, const SentenceEncoder& encoder,
                   std::shared_ptr<const Tokenizer> tokenizer, EmbeddingEngine& engine,
                   const Clock& clock);

  Router& router() { return router_; }
  std::size_t unfinished() const { return *unfinished_; }

 private:
  void add_routes();
  Result<void> embeddings(const net::HttpRequest& request, const Reply& reply);
  Result<std::string> tokenize(const net::HttpRequest& request) const;
  // Ids of every input, cut where the request asks for it.
  Result<std::vector<std::vector<TokenId>>> input_ids(const api::EmbeddingRequest& request) const;
  void answer(const api::AnswerHead& head, api::EncodingFormat format, std::int64_t prompt_tokens,
              const std::vector<float>& rows, const Reply& reply);
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
