#include "tests/ops/cpu_devices.h"
#include "tests/ops/devices.h"
#include "tests/support/staged_team.h"

namespace saccade {

const DeviceKind kDeviceKind = DeviceKind::kTeam;
bool emulated() { return false; }
std::vector<std::string> isas_here() { return {cpu_isas_here().back()}; }

// Of one thread each: what threads change is seen on a CPU alone.
std::unique_ptr<Device> make_tested_device(const std::string& isa, int) {
  return make_staged_team(2, 1, isa);
}

}  // namespace saccade
