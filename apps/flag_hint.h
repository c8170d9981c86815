// "did you mean --max-num-seqs?": the closest flag to one that nobody knows.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace saccade {

// One line for each argument that looks like a flag of the chosen subcommand and is none, where a
// flag is close to it or llama-server has it; and one where no subcommand is chosen. `arguments` as
// CLI11 takes them, the last first. Empty when there is nothing to say.
std::string flag_hints(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace saccade
