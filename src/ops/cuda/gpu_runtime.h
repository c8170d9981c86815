// The CUDA runtime of a GPU.
#pragma once

#include <memory>

#include "base/result.h"
#include "ops/cuda/runtime.h"

namespace saccade::cuda {

// kUnsupported without a driver, without a GPU or with one that is too old, kInvalid when there are
// fewer: each with what to do.
Result<std::unique_ptr<Runtime>> make_gpu_runtime(int index);

}  // namespace saccade::cuda
