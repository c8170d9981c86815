// A model family: what its checkpoints call themselves and how a model is made from one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/model.h"
#include "model/weight_table.h"

namespace saccade {

// A model whose weights are not there yet: shape() and the prompt arithmetic work, forward() does
// not.
class LoadableModel : public Model {
 public:
  // Rows whose destinations are this model's own. The model must stay where it is.
  virtual WeightTable weight_table() = 0;
  // Once, before the weights: what matrices are multiplied in and what keys, values and embeddings
  // are stored as.
  virtual void set_dtypes(DType compute, DType kv) = 0;
  // Once, after them.
  void set_loaded(std::int64_t parameters, std::size_t bytes) {
    shape_.parameters = parameters;
    shape_.weight_bytes = bytes;
  }
};

// A checkpoint of random weights to write: everything but the weights and the tokenizer.
struct DummyFile {
  std::string name;
  std::string text;
};
struct DummyCheckpoint {
  std::vector<DummyFile> files;             // config.json, preprocessor_config.json, ...
  std::vector<std::string> special_tokens;  // consecutive ids from first_special_token on
  std::int64_t first_special_token = 0;
  std::string end_of_turn;  // eos_token of tokenizer_config.json
};

struct Family {
  std::string_view name;                            // as --family takes it
  std::span<const std::string_view> architectures;  // config.json's `architectures`
  std::span<const std::string_view> model_types;    // its `model_type`, where those are absent
  std::span<const NameAlias> aliases;               // other tensor names to those of weight_table()
  std::span<const std::string_view> sizes;          // that `dummy` knows: "tiny", "2b"
  Result<std::unique_ptr<LoadableModel>> (*create)(const Checkpoint& checkpoint) = nullptr;
  Result<DummyCheckpoint> (*dummy)(std::string_view size) = nullptr;
};

}  // namespace saccade
