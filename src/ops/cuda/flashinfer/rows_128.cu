#include "ops/cuda/flashinfer/flashinfer_launch.cuh"

namespace saccade::cuda {

int launch_rows_128(const FlashArgs& args, cudaStream_t stream) {
  return launch_rows<kRows128>(args, stream);
}

}  // namespace saccade::cuda
