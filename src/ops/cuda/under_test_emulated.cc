#include "ops/cuda/device_under_test.h"
#include "ops/cuda/emulator/emulated_device.h"

namespace saccade {
namespace cuda {

const bool kUnderTestIsEmulated = true;

Result<std::unique_ptr<Device>> make_device_under_test(DType activations, std::uint64_t seed,
                                                       const CudaSettings&) {
  return make_emulated_cuda_device({.late = true, .seed = seed}, activations);
}

Result<std::unique_ptr<Device>> make_immediate_device(std::uint64_t seed) {
  emulator::seed(seed);
  return make_emulated_cuda_device({.late = false, .space = Space::kHost});
}

Result<std::unique_ptr<Runtime>> make_runtime_under_test() {
  return emulator::make_emulated_runtime({});
}

}  // namespace cuda

// A program that is linked with this takes the emulator for the machine's first GPU.
Result<std::unique_ptr<Device>> make_cuda_device(int index, const CudaSettings&) {
  if (index != 0)
    return fail(ErrorCode::kInvalid, "CUDA device {} was asked for, and there is 1, emulated",
                index);
  return cuda::make_device_under_test(DType::kBf16);
}

}  // namespace saccade
