// The subcommands of `saccade model`, one file each.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/result.h"

namespace saccade {

void add_model_make_dummy(CLI::App& model, int& exit_code);
void add_model_inspect(CLI::App& model, int& exit_code);
void add_model_compare(CLI::App& model, int& exit_code);
void add_model_quantize(CLI::App& model, int& exit_code);
void add_model_memory(CLI::App& model, int& exit_code);
void add_model_pull(CLI::App& model, int& exit_code);

// The exit code of a command: 0, or its error printed and 2 for what the caller gave wrong, 1 for
// anything else.
inline int report(const Result<void>& outcome) {
  if (outcome) return 0;
  std::fprintf(stderr, "saccade model: %s\n", outcome.error().message.c_str());
  const ErrorCode code = outcome.error().code;
  return code == ErrorCode::kInvalid || code == ErrorCode::kNotFound ? 2 : 1;
}

}  // namespace saccade
