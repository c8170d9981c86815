// Ranks that are GPUs of this process, one thread each, adding up with NCCL.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/libraries/nccl_library.h"
#include "ops/team/collective.h"

namespace saccade::cuda {

// Element r is for rank r and devices[r], which are different GPUs and outlive them; f32 or bf16,
// added up in an order that the library picks by extents. A sum goes into the stream, so that
// all_reduce() waits for nobody; what waits is whoever waits for the stream, until abort(). A
// repeated step is launched call by call from its first sum on. kUnavailable with the library's
// words: the GPUs did not find each other, or not within `patience`.
Result<std::vector<std::unique_ptr<Collective>>> make_nccl_collectives(
    std::shared_ptr<const NcclLibrary> library, std::span<CudaDevice* const> devices,
    std::chrono::milliseconds patience = std::chrono::minutes(2));

}  // namespace saccade::cuda
