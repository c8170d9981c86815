// Linked in place of ops/cuda when the build found no CUDA toolkit.
#include "ops/backend.h"

namespace saccade {

Result<std::unique_ptr<Backend>> make_cuda_backend(int device) {
  return fail(ErrorCode::kUnsupported,
              "CUDA device {} was asked for, and this build has no CUDA: use --device cpu", device);
}

}  // namespace saccade
