// The flags of adapters, under vLLM's names.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/settings.h"

namespace saccade {

struct LoraFlags {
  bool enable = false;
  std::vector<std::string> modules;  // NAME=FOLDER, or JSON
  std::int64_t max_loras = 1;
  std::int64_t max_cpu_loras = 0;  // 0: not given
};

void add_lora_flags(CLI::App& cmd, LoraFlags& flags, serve::ServeSettings& settings);

// Errors name the flag and the module.
Result<void> complete_lora(const LoraFlags& flags, serve::ServeSettings& settings);

}  // namespace saccade
