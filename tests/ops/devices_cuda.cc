#include "ops/cuda/device_under_test.h"
#include "tests/ops/cpu_devices.h"
#include "tests/ops/devices.h"

namespace saccade {

const DeviceKind kDeviceKind = DeviceKind::kCuda;
bool emulated() { return cuda::kUnderTestIsEmulated; }
std::vector<std::string> isas_here() { return {"cuda"}; }

// Threads are seeds of the schedule here.
std::unique_ptr<Device> make_tested_device(const std::string& isa, int threads) {
  if (isa != "cuda") return make_cpu_device_here(threads, isa);
  auto device = cuda::make_immediate_device(static_cast<std::uint64_t>(threads));
  CHECK(device.has_value(), "{}", device.error().message);
  return std::move(*device);
}

}  // namespace saccade
