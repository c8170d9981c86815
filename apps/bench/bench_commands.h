// The subcommands of `saccade bench`, one file each.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/serve_settings.h"

namespace saccade {

void add_bench_serve(CLI::App& bench, int& exit_code);
// trace-run, profile-ttft, similarity, image-sizes, dashinfer, summarization, kit, search.
void add_bench_methods(CLI::App& bench, int& exit_code);
void add_bench_trace(CLI::App& bench, int& exit_code);
void add_bench_mock(CLI::App& bench, int& exit_code);
void add_bench_selftest(CLI::App& bench, int& exit_code);
void add_bench_report(CLI::App& bench, int& exit_code);
void add_bench_compare(CLI::App& bench, int& exit_code);

// All options of `serve`, for the commands that are serve with defaults of their own. After
// parsing, each interpretation must be called.
void add_serve_options(CLI::App& app, const std::shared_ptr<bench::ServeSettings>& settings,
                       std::vector<std::function<Result<void>()>>& interpretations);
// Of them, what says which server is asked, and how.
void add_target_options(CLI::App& app, bench::TargetChoice& target);
// The command line as typed, values of headers replaced by ***.
std::vector<std::string> typed_arguments();

// Prints what a command produced, or its error, and gives the exit code: 0, or 2 for bad input and
// 1 for anything else.
inline int finish(const Result<std::string>& outcome) {
  if (outcome) {
    std::fwrite(outcome->data(), 1, outcome->size(), stdout);
    return 0;
  }
  std::fprintf(stderr, "saccade bench: %s\n", outcome.error().message.c_str());
  const ErrorCode code = outcome.error().code;
  const bool typed_or_read = code == ErrorCode::kInvalid || code == ErrorCode::kNotFound ||
                             code == ErrorCode::kUnsupported || code == ErrorCode::kTooLarge;
  return typed_or_read ? 2 : 1;
}

}  // namespace saccade
