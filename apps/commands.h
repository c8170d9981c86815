// What main() is made of: each file of apps/ adds its subcommands. A subcommand's callback sets the
// exit code.
#pragma once

#include <CLI/CLI.hpp>

namespace saccade {

void add_serve(CLI::App& app, int& exit_code);
void add_batch(CLI::App& app, int& exit_code);
void add_model(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_chat(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_fit(CLI::App& app, int& exit_code);
void add_manual(CLI::App& app, int& exit_code);

}  // namespace saccade
