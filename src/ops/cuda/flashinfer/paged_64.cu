#include "ops/cuda/flashinfer/flashinfer_launch.cuh"

namespace saccade::cuda {

int launch_paged_64(const FlashArgs& args, cudaStream_t stream) {
  return launch_paged<kPaged64>(args, stream);
}

}  // namespace saccade::cuda
