// Flags of `saccade serve` that concern a GPU alone.
#pragma once

#include "apps/flags/serve_flags.h"

namespace saccade {

void add_gpu_flags(CLI::App& cmd, ServeFlags& flags);

// Fills the engine's settings; on a CPU adds a notice for each that was given. After the variables
// of the environment were read.
void complete_gpu_flags(ServeFlags& flags);

}  // namespace saccade
