// `saccade bench`: measures OpenAI-compatible servers.
#include "apps/bench/bench_commands.h"
#include "apps/commands.h"

namespace saccade {

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* const bench = app.add_subcommand("bench", "Measure any OpenAI-compatible server");
  bench->require_subcommand(1);
  add_bench_serve(*bench, exit_code);
  add_bench_methods(*bench, exit_code);
  add_bench_report(*bench, exit_code);
  add_bench_compare(*bench, exit_code);
  add_bench_trace(*bench, exit_code);
  add_bench_mock(*bench, exit_code);
  add_bench_selftest(*bench, exit_code);
}

}  // namespace saccade
