#include "ops/cuda/emulator/emulated_device.h"

#include "ops/cuda/cuda_device.h"

namespace saccade {

std::unique_ptr<Device> make_emulated_cuda_device(const emulator::EmulatedSettings& settings,
                                                  DType activations) {
  return std::make_unique<cuda::CudaDevice>(emulator::make_emulated_runtime(settings), 2,
                                            activations);
}

}  // namespace saccade
