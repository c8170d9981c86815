#include "ops/cuda/flashinfer/flashinfer_launch.cuh"

namespace saccade::cuda {

int launch_rows_64(const FlashArgs& args, cudaStream_t stream) {
  return launch_rows<kRows64>(args, stream);
}

}  // namespace saccade::cuda
