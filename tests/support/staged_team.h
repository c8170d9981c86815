// A team of devices for tests whose operands are memory of their own: what an op is given lies in
// buffers of the team while the op runs, and comes back. Every rank must have left the same bits.
#pragma once

#include <memory>
#include <string>

#include "ops/device.h"

namespace saccade {

// Of `ranks` CPUs of an instruction set.
std::unique_ptr<Device> make_staged_team(int ranks, int threads, const std::string& isa);

}  // namespace saccade
