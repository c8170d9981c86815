// The CUDA device on the emulator: the same code as on a GPU down to the runtime, kernels included.
// For tests.
#pragma once

#include <memory>

#include "ops/cuda/emulator/emulated_stream.h"
#include "ops/cuda/emulator/emulator.h"
#include "ops/device.h"

namespace saccade {

std::unique_ptr<Device> make_emulated_cuda_device(const emulator::EmulatedSettings& settings,
                                                  DType activations = DType::kF32);

}  // namespace saccade
