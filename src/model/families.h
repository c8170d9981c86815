// Every family there is, and loading a checkpoint of whichever one it belongs to.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/checkpoint/checkpoint.h"
#include "model/family.h"
#include "model/model.h"

namespace saccade {

std::span<const Family* const> families();

// By --family name; kNotFound lists the names.
Result<const Family*> find_family(std::string_view name);
// By config.json; kUnsupported names the architecture.
Result<const Family*> family_of(const json::object& config);

struct LoadOptions {
  // What matrices are stored and multiplied as: kF32 or kBf16. Absent: the checkpoint's own type,
  // where float16 becomes kF32 (bf16 would drop three of its bits; ask for it to halve the memory).
  std::optional<DType> compute = {};
  // What the matrices of the text's layers, of the tower's layers, and the head, are stored and
  // multiplied as instead: kI8, rounded at load (ops/formats/int8_rows.h); kUnsupported on a device
  // without it, and for a tower that is not there. Absent: as `compute`. What stands beside them
  // (embeddings, norms, patches, projectors) is never rounded so; a head that is the embedding too
  // is one matrix, and then both are.
  std::optional<DType> text_layers = {};
  std::optional<DType> tower_layers = {};
  std::optional<DType> head = {};
  // The matrices of the text's layers are rounded to four bits at load
  // (model/quantization/code_rounding.h), but for those whose inputs are no multiple of 32;
  // `text_layers` says what they are multiplied as.
  bool four_bit_text = false;
  // Matrices that the checkpoint has in four bits become numbers of the types above, on a device
  // that would keep them as they are.
  bool dequantize = false;
  // kUnsupported on a device that does not multiply so.
  Int8Rows int8_rows = Int8Rows::kStated;
  // Activations stay what they are, where a checkpoint of weights in 8 bits says that they are to
  // be rounded too, on a device that would (W8A16 instead of W8A8).
  bool weight_only = false;
  // Keys and values; of floats, image embeddings too. Absent: as `compute`, as are embeddings
  // beside keys and values in bytes (kI8 or kE4m3; kUnsupported on a device without them).
  std::optional<DType> kv = {};
  // Those of `saccade model make-dummy` instead of the checkpoint's: no weight file is read.
  bool random_weights = false;
  Parts parts = Parts::kAll;  // kVision of a model without a tower is kUnsupported
  // The folder of files of packed weights (checkpoint/packed_cache.h); empty: none. Not of random
  // weights, and on a CPU alone.
  std::string packed_cache = {};
  // One of several ranks, each of which loads its share; null: all of it. Outlives the model.
  Collective* ranks = nullptr;
};

// A checkpoint's processor, and its network without the weights. Refuses what is quantised
// in a way that is not read (model/quantization/quantization.h).
Result<UnloadedModel> create_model(const Checkpoint& checkpoint);

// What a model with images takes for a preprocessor_config.json that its folder does not have: the
// names and values of its family's defaults. Empty where there is one, or no image.
Result<std::string> image_defaults(const Checkpoint& checkpoint);

// create_model() for a sentence encoder. Of the two, the one that the family does not have is
// kUnsupported.
Result<std::unique_ptr<LoadableEncoder>> create_encoder(const Checkpoint& checkpoint);

// Reads, checks and packs the weights. Errors name the file, tensor or field. On a team of devices
// (ops/team/team_device.h) each rank loads its share, and `options.ranks` is the team's.
Result<Model> load_model(const Checkpoint& checkpoint, Device& device,
                         const LoadOptions& options = {});
Result<std::unique_ptr<SentenceEncoder>> load_encoder(const Checkpoint& checkpoint, Device& device,
                                                      const LoadOptions& options = {});

// float32, bfloat16 or float16 as config.json's dtype (torch_dtype); nothing when it has none.
std::optional<DType> stated_dtype(const json::object& config);

}  // namespace saccade
