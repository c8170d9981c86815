#include "ops/cuda/flashinfer/flashinfer_narrow.cuh"

namespace saccade::cuda {

int launch_rows_to_96(const FlashArgs& args, cudaStream_t stream) {
  return launch_narrow_rows<kRowsTo96>(args, stream);
}

}  // namespace saccade::cuda
