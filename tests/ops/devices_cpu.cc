#include <algorithm>

#include "tests/ops/cpu_devices.h"
#include "tests/ops/devices.h"

namespace saccade {

const DeviceKind kDeviceKind = DeviceKind::kCpu;
bool emulated() { return false; }
// With sanitizers those whose kernels are sources of their own: avxvnni is avx2's but for one
// instruction, avx512 and vnni are a part of bf16's.
std::vector<std::string> isas_here() {
  std::vector<std::string> isas = cpu_isas_here();
  if (kSanitized) std::erase(isas, "avxvnni");
  if (kSanitized && std::ranges::find(isas, "bf16") != isas.end())
    std::erase_if(isas, [](const std::string& isa) { return isa == "avx512" || isa == "vnni"; });
  return isas;
}
std::unique_ptr<Device> make_tested_device(const std::string& isa, int threads) {
  return make_cpu_device_here(threads, isa);
}

}  // namespace saccade
