// The subcommands of `saccade bench`, one file each.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/result.h"

namespace saccade {

void add_bench_trace(CLI::App& bench, int& exit_code);
void add_bench_report(CLI::App& bench, int& exit_code);
void add_bench_compare(CLI::App& bench, int& exit_code);

// Prints what a command produced, or its error, and gives the exit code: 0, or 2 for bad input and
// 1 for anything else.
inline int finish(const Result<std::string>& outcome) {
  if (outcome) {
    std::fwrite(outcome->data(), 1, outcome->size(), stdout);
    return 0;
  }
  std::fprintf(stderr, "saccade bench: %s\n", outcome.error().message.c_str());
  const ErrorCode code = outcome.error().code;
  return code == ErrorCode::kInvalid || code == ErrorCode::kNotFound ? 2 : 1;
}

}  // namespace saccade
