// Linked in place of ops/cuda when the build found no CUDA toolkit.
#include "ops/device.h"
#include "ops/team/cuda_ranks.h"

namespace saccade {

Result<std::unique_ptr<Device>> make_cuda_device(int index, const CudaSettings&) {
  return fail(ErrorCode::kUnsupported,
              "CUDA device {} was asked for, and this build has no CUDA: rebuild with "
              "-DSACCADE_CUDA=ON (docs/cuda.md), or use --device cpu",
              index);
}

Result<CudaRanks> make_cuda_ranks(int ranks, const CudaSettings&) {
  return fail(ErrorCode::kUnsupported,
              "{} ranks on GPUs were asked for, and this build has no CUDA: rebuild with "
              "-DSACCADE_CUDA=ON (docs/cuda.md), or use --device cpu",
              ranks);
}

}  // namespace saccade
