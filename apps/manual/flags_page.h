// docs/flags.md, from the flags themselves.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace saccade {

// Of `saccade serve`: its own flags, vLLM's, and environment variables.
std::string flags_page(const CLI::App& serve);

}  // namespace saccade
