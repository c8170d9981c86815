// --device: which device a model runs on.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/threads/processors.h"
#include "ops/device.h"

namespace saccade::serve {

// "auto", "cpu", "cuda" (the first GPU) or "cuda:N".
struct DeviceChoice {
  enum class Kind : std::uint8_t { kAuto, kCpu, kCuda };
  Kind kind = Kind::kCpu;
  int index = 0;           // of the GPU
  CudaSettings cuda = {};  // where it is one

  bool operator==(const DeviceChoice&) const = default;
};

// kInvalid, with the forms there are.
Result<DeviceChoice> parse_device(std::string_view text);

// threads: of a CPU, 0 for one per core. kAuto takes the first GPU where this build and the machine
// have one, and says in the log why where it takes the CPU in spite of a driver being loaded.
Result<std::unique_ptr<Device>> make_device(const DeviceChoice& choice, int threads);

// A device for each of several ranks, as one (ops/team/team_device.h): GPUs from the first on, or
// the CPU's threads in as many equal parts. One rank is make_device(). `processors`: what each
// rank's threads stay on, on the CPU, so that what they write first lies beside them (empty:
// anywhere); the caller is rank 0's first thread and stays where it is. kInvalid: cuda:N with N
// above 0; else as make_cuda_ranks().
Result<std::unique_ptr<Device>> make_ranks(const DeviceChoice& choice, int threads, int ranks,
                                           const std::vector<ProcessorSet>& processors = {});

}  // namespace saccade::serve
