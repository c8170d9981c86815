#include "base/threads/processors.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/gpu_runtime.h"

namespace saccade {

Result<std::unique_ptr<Device>> make_cuda_device(int index, const CudaSettings& settings) {
  TRY(std::unique_ptr<cuda::Runtime> runtime, cuda::make_gpu_runtime(index));
  // Of the host, to read weights.
  const int threads = find_processors().compute_threads();
  auto device = std::make_unique<cuda::CudaDevice>(std::move(runtime), threads, DType::kBf16);
  TRY_DO(device->open_libraries(settings));
  TRY_DO(device->choose_attention(settings, cuda::open_flashinfer(index)));
  return device;
}

}  // namespace saccade
