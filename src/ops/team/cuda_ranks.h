// Several GPUs as ranks of one model.
#pragma once

#include <memory>
#include <vector>

#include "ops/device.h"
#include "ops/team/collective.h"

namespace saccade {

struct CudaRanks {
  std::vector<std::unique_ptr<Device>> devices;  // [ranks]: GPUs from 0 on
  std::vector<std::unique_ptr<Collective>> collectives;
};

// Asks for all kernels to be loaded with the first device (CUDA_MODULE_LOADING, where nobody has
// set it): loading one later may wait for a device whose sum waits for the other ranks. kInvalid:
// fewer GPUs than ranks. kNotFound: no NCCL where the settings or the variable say, or in the usual
// places. kUnavailable: the GPUs did not come together. kUnsupported: as make_cuda_device().
Result<CudaRanks> make_cuda_ranks(int ranks, const CudaSettings& settings = {});

}  // namespace saccade
