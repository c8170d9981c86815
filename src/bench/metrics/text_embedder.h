// Sentence embeddings for comparing answers: from a server, or from whatever else makes them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/load/server/server_probe.h"

namespace saccade::bench {

// One vector a text, in order, all of one length.
using Embedder =
    std::function<Result<std::vector<std::vector<float>>>(std::span<const std::string> texts)>;

struct EmbeddingServer {
  ServerTarget target;
  std::string model;       // as the server names it; empty: the first of /v1/models
  std::size_t batch = 64;  // texts a request
  double request_s = 600;  // the longest that one request may take
};

// POST /v1/embeddings. Texts beyond the model's length are cut there (truncate_prompt_tokens -1),
// as sentence-transformers does. Blocking; one thread.
Result<Embedder> make_embedder(const EmbeddingServer& server);

// Of the angle between two vectors; 0 when one has no length.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace saccade::bench
