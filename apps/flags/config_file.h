// A file of flags for one subcommand: `--config FILE`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace saccade {

// Gives `command` the flags that the file names and the command line does not. TOML or INI
// ("max-model-len = 2048"), or with the ending .yaml or .yml the flat "max-model-len: 2048"; names
// without the dashes in front, dash and underscore alike. kInvalid names the file and what is
// wrong.
Result<void> read_config_file(CLI::App& command, const std::string& path);

}  // namespace saccade
