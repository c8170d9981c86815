// The CUDA runtime of a GPU.
#pragma once

#include <memory>

#include "base/result.h"
#include "ops/cuda/runtime.h"

namespace saccade::cuda {

// kUnsupported without a driver, without a GPU or with one that is too old, kInvalid when there are
// fewer: each with what to do.
Result<std::unique_ptr<Runtime>> make_gpu_runtime(int index);

// From here on a launch returns when the GPU is idle again, so that a kernel that fails is named
// and the host may read what one wrote. For tests.
void wait_after_launches();

}  // namespace saccade::cuda
