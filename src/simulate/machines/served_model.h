// What the simulated machines serve, in the numbers that deciding needs: how images become tokens,
// and what the cache keeps for one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "memory/layer_spec.h"
#include "model/prompts/processor.h"

namespace saccade::simulate {

struct ServedModel {
  std::string name;
  std::unique_ptr<Processor> processor;
  ModelShape shape;               // of the processor, with embeddings in bfloat16
  std::vector<LayerSpec> layers;  // of the cache
};

// A checkpoint's small files; its weights may be missing. Keys and values are kept as `cache`.
// Errors name the file.
Result<ServedModel> model_of_checkpoint(const std::string& directory, DType cache = DType::kBf16);
// Where there are costs alone: images as squares of 28 pixels a token, up to 16384 (Qwen2-VL's
// rule), the cache as `layers` say, or as that of its 2B in bfloat16.
Result<ServedModel> model_of_costs(const std::string& name, std::vector<LayerSpec> layers);

}  // namespace saccade::simulate
