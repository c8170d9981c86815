// The subcommands about several servers.
#pragma once

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "base/result.h"

namespace saccade {

void add_profile(CLI::App& app, int& exit_code);
void add_proxy(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);

// The exit code of a command: 0, or 1 with its error in the log.
inline int logged(const Result<void>& outcome) {
  if (!outcome) log::error("{}", outcome.error().message);
  return outcome ? 0 : 1;
}

}  // namespace saccade
