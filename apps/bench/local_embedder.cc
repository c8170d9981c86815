#include "apps/bench/local_embedder.h"

#include <memory>
#include <utility>

#include "engine/embedding_engine.h"
#include "model/families.h"

namespace saccade {
namespace {

struct Loaded {
  std::unique_ptr<Device> device;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<SentenceEncoder> encoder;
  std::unique_ptr<EmbeddingEngine> engine;
};

using Rows = std::vector<std::vector<float>>;

Result<Rows> embed(Loaded& with, std::span<const std::string> texts) {
  Rows rows(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<TokenId> ids = with.encoder->tokenize(*with.tokenizer, texts[i]);
    with.encoder->truncate(*with.tokenizer, ids, with.encoder->shape().max_tokens);
    TRY_DO(with.engine->submit({std::move(ids)},
                               [&rows, i](std::vector<float> row) { rows[i] = std::move(row); }));
    // Short of the engine's queue.
    if (i % 256 == 255) {
      while (with.engine->step()) {
      }
    }
  }
  while (with.engine->step()) {
  }
  return rows;
}

}  // namespace

Result<bench::Embedder> load_embedder(const std::string& model) {
  TRY(const std::string directory, resolve_checkpoint(model));
  TRY(const Checkpoint checkpoint, open_checkpoint(directory));
  auto loaded = std::make_shared<Loaded>();
  TRY(loaded->device, make_cpu_device(0));
  TRY(loaded->tokenizer, load_tokenizer(checkpoint.files));
  TRY(loaded->encoder, load_encoder(checkpoint, *loaded->device));
  TRY(loaded->engine, EmbeddingEngine::create({}, *loaded->encoder, *loaded->device));
  return bench::Embedder(
      [loaded](std::span<const std::string> texts) { return embed(*loaded, texts); });
}

}  // namespace saccade
