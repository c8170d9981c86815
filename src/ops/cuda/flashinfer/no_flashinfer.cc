// Of a build without FlashInfer's headers.
#include "ops/cuda/libraries/flash_attention.h"

namespace saccade::cuda {

Result<std::unique_ptr<FlashAttention>> open_flashinfer(int) {
  return fail(ErrorCode::kUnsupported,
              "this build has no FlashInfer (scripts/fetch-flashinfer, then configure again)");
}

}  // namespace saccade::cuda
