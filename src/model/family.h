// A model family: what its checkpoints call themselves and how a model is made from one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/weight_table.h"
#include "model/network.h"
#include "model/prompts/processor.h"
#include "model/sentence_encoder.h"
#include "ops/team/collective.h"

namespace saccade {

struct ModelTypes {
  DType compute = DType::kF32;     // what matrices are multiplied in
  DType embeddings = DType::kF32;  // ModelShape::embedding_dtype
  DType cache = DType::kF32;       // ModelShape::cache_dtype
};

// What weights are loaded into, whatever it is for.
class Loadable {
 public:
  virtual ~Loadable() = default;
  // Rows whose destinations are this model's own, which must stay where it is. What other parts
  // have may be in the checkpoint and is not read.
  virtual WeightTable weight_table(Parts parts = Parts::kAll) = 0;
  // Once, before everything else: one of several ranks. `ranks` outlives the model.
  virtual Result<void> split(Collective& ranks) = 0;
  // Once, before the weights.
  virtual void set_dtypes(const ModelTypes& types) = 0;
  // Once, after them. `tower`: ModelShape::tower_fingerprint.
  virtual void set_loaded(std::int64_t parameters, std::size_t bytes, std::string tower) = 0;
};

// A network whose weights are not there yet: shape() works, forward() does not.
class LoadableNetwork : public Network, public Loadable {
 public:
  void set_loaded(std::int64_t parameters, std::size_t bytes, std::string tower) final {
    shape_.parameters = parameters;
    shape_.weight_bytes = bytes;
    shape_.tower_fingerprint = std::move(tower);
  }
};

// What a family makes of a checkpoint's small files.
struct UnloadedModel {
  std::unique_ptr<Processor> processor;
  std::unique_ptr<LoadableNetwork> network;

  const ModelShape& shape() const { return network->shape(); }
};

// The same of a sentence encoder.
class LoadableEncoder : public SentenceEncoder, public Loadable {
 public:
  void set_loaded(std::int64_t parameters, std::size_t bytes, std::string) final {
    shape_.parameters = parameters;
    shape_.weight_bytes = bytes;
  }
};

struct Family {
  // One name or two.
  using Names = std::array<std::string_view, 2>;
  std::string_view name;                    // as --family takes it
  Names architectures;                      // config.json's `architectures`
  Names model_types;                        // its `model_type`, where those are absent
  std::span<const NameAlias> aliases = {};  // other tensor names to those of weight_table()
  // Which of two families that share an architecture a config.json is; null: any.
  bool (*accepts)(const json::object& config) = nullptr;
  // One of the two: what generates text, or what embeds it.
  Result<UnloadedModel> (*create)(const Checkpoint& checkpoint) = nullptr;
  Result<std::unique_ptr<LoadableEncoder>> (*create_encoder)(const Checkpoint& checkpoint) =
      nullptr;
};

}  // namespace saccade
