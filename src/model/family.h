// A model family: what its checkpoints call themselves and how a model is made from one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/model.h"
#include "model/sentence_encoder.h"
#include "model/weight_table.h"
#include "ops/collective.h"
#include "text/synthetic_tokenizer.h"

namespace saccade {

// What weights are loaded into, whatever it is for.
class Loadable {
 public:
  virtual ~Loadable() = default;
  // Rows whose destinations are this model's own, which must stay where it is. What other parts
  // have may be in the checkpoint and is not read.
  virtual WeightTable weight_table(Parts parts = Parts::kAll) = 0;
  // Once, before everything else: one of several ranks. `ranks` outlives the model.
  virtual Result<void> split(Collective& ranks) = 0;
  // Once, before the weights: what matrices are multiplied in and what keys, values and embeddings
  // are stored as.
  virtual void set_dtypes(DType compute, DType kv) = 0;
  // Once, after them. `tower`: ModelShape::tower_fingerprint.
  virtual void set_loaded(std::int64_t parameters, std::size_t bytes, std::string tower) = 0;
};

// A model whose weights are not there yet: shape() and the prompt arithmetic work, forward() does
// not.
class LoadableModel : public Model, public Loadable {
 public:
  void set_loaded(std::int64_t parameters, std::size_t bytes, std::string tower) final {
    shape_.parameters = parameters;
    shape_.weight_bytes = bytes;
    shape_.tower_fingerprint = std::move(tower);
  }
};

// The same of a sentence encoder.
class LoadableEncoder : public SentenceEncoder, public Loadable {
 public:
  void set_loaded(std::int64_t parameters, std::size_t bytes, std::string) final {
    shape_.parameters = parameters;
    shape_.weight_bytes = bytes;
  }
};

// A checkpoint of random weights to write: everything but the weights.
struct DummyFile {
  std::string name;
  std::string text;
};
struct DummyCheckpoint {
  std::vector<DummyFile> files;  // config.json first, generation_config.json, ...
  std::string chat_template;     // written where old and new readers look for it
  // Of tokenizer.json and tokenizer_config.json; without pieces `files` has both.
  std::int64_t tokenizer_pieces = 0;  // bytes and letters, before the special tokens
  std::vector<SpecialTokenAt> special_tokens;
  std::string tokenizer_pattern;
  SyntheticTokenizerOptions tokenizer_options;
  std::string tokenizer_class;
  std::string end_token;
  std::string pad_token;
};

struct Family {
  std::string_view name;                            // as --family takes it
  std::span<const std::string_view> architectures;  // config.json's `architectures`
  std::span<const std::string_view> model_types;    // its `model_type`, where those are absent
  std::span<const NameAlias> aliases;               // other tensor names to those of weight_table()
  std::span<const std::string_view> sizes;          // that `dummy` knows: "tiny", "2b"
  // Which of two families that share an architecture a config.json is; null: any.
  bool (*accepts)(const json::object& config) = nullptr;
  // One of the two: what generates text, or what embeds it.
  Result<std::unique_ptr<LoadableModel>> (*create)(const Checkpoint& checkpoint) = nullptr;
  Result<std::unique_ptr<LoadableEncoder>> (*create_encoder)(const Checkpoint& checkpoint) =
      nullptr;
  Result<DummyCheckpoint> (*dummy)(std::string_view size) = nullptr;
};

}  // namespace saccade
