// CPU devices for what tests run on (devices.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/device.h"

namespace saccade {

// Every instruction set that this machine runs, the least first.
inline std::vector<std::string> cpu_isas_here() {
  std::vector<std::string> isas;
  for (const char* isa :
       {"portable", "neon", "dotprod", "avx2", "avxvnni", "avx512", "vnni", "bf16", "amx"})
    if (make_cpu_device(1, isa).has_value()) isas.emplace_back(isa);
  return isas;
}

// Ends the program where the machine has no such instructions.
inline std::unique_ptr<Device> make_cpu_device_here(int threads, const std::string& isa) {
  auto device = make_cpu_device(threads, isa);
  CHECK(device.has_value(), "{}", device.error().message);
  return std::move(*device);
}

}  // namespace saccade
