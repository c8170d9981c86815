// "did you mean --max-num-seqs?": the closest flag to one that nobody knows.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace saccade {

// One line for each argument that looks like a flag of the chosen subcommand and is none, where a
// flag is close to it or llama-server has it; and one where no subcommand is chosen. `arguments` as
// CLI11 takes them, the last first. Empty when there is nothing to say.
std::string flag_hints(const CLI::App& app, const std::vector<std::string>& arguments);

// "help serve" asks as "serve --help" does; other arguments stay as they are. In their order. The
// error names a word that is no command, and those that there are.
Result<std::vector<std::string>> asked_for_help(const CLI::App& app,
                                                std::vector<std::string> arguments);

}  // namespace saccade
