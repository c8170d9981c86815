#include "ops/cuda/flashinfer/flashinfer_narrow.cuh"

namespace saccade::cuda {

int launch_paged_to_128(const FlashArgs& args, cudaStream_t stream) {
  return launch_narrow_paged<kPaged128>(args, stream);
}

}  // namespace saccade::cuda
