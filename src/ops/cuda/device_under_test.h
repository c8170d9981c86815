// The CUDA device as tests and measurements want it, in a form for each build: on the first GPU in
// one with CUDA (under_test_gpu.cc), on the emulator in any other (under_test_emulated.cc). What
// calls these is one source and two programs.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "ops/cuda/runtime.h"
#include "ops/device.h"

namespace saccade::cuda {

// On the emulator, what takes a GPU milliseconds takes seconds.
extern const bool kUnderTestIsEmulated;

// As make_cuda_device(0), with activations of kBf16 or, for comparing with other devices, of kF32,
// and by the own kernels alone unless `settings` say otherwise. On the emulator streams run late,
// in the order that `seed` gives, and there are no others. kUnsupported, with what is missing.
Result<std::unique_ptr<Device>> make_device_under_test(DType activations, std::uint64_t seed = 1,
                                                       const CudaSettings& settings = {
                                                           .libraries = "none",
                                                           .attention = AttentionBackend::kOwn});

// For the suite of the ops, which passes memory of its own and reads results as soon as a call
// returns: f32 activations; a call is over when it returns; what allocate() gives is the host's to
// read. On a GPU everything that an op is given must be of pinned_heap.h.
Result<std::unique_ptr<Device>> make_immediate_device(std::uint64_t seed = 1);

// The runtime below them: for kernels that are no op.
Result<std::unique_ptr<Runtime>> make_runtime_under_test();

}  // namespace saccade::cuda
