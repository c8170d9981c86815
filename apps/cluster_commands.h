// The subcommands about several servers.
#pragma once

#include <CLI/CLI.hpp>

namespace saccade {

void add_profile(CLI::App& app, int& exit_code);
void add_proxy(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);

}  // namespace saccade
