// The tensors of a GGUF checkpoint under the names and in the order that transformers has.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/checkpoint/safetensors.h"
#include "model/gguf/gguf_paths.h"

namespace saccade {

// One file of all tensors. What only has another name stays where it is mapped; the rest is put
// together when its bytes are asked for, and given back at release(). Types in blocks stay as they
// are ("Q4_K"). Errors name the file and the tensor.
Result<std::unique_ptr<const WeightFile>> open_gguf_weights(const GgufPaths& paths);

}  // namespace saccade
