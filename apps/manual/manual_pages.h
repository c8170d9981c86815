// Manual pages and completions, from the commands' own flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade {

// "saccade-bench-serve" of a command: its path with dashes.
std::string page_name(const CLI::App& command);
// In roff, section 1. `root` is the program itself.
std::string manual_page(const CLI::App& root, const CLI::App& command);
// Of the program and all its commands: NAME.1 in `folder`, which is made.
Result<void> write_manual_pages(const CLI::App& root, const std::string& folder);

// A script for bash, zsh or fish; kInvalid for another shell.
Result<std::string> completion(const CLI::App& root, std::string_view shell);

}  // namespace saccade
