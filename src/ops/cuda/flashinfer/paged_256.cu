#include "ops/cuda/flashinfer/flashinfer_launch.cuh"

namespace saccade::cuda {

int launch_paged_256(const FlashArgs& args, cudaStream_t stream) {
  return launch_paged<kPaged256>(args, stream);
}

}  // namespace saccade::cuda
