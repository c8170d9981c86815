// `saccade bench selftest`: is what is measured what is there?
#include "apps/bench/bench_commands.h"
#include "bench/mock/selftest.h"

namespace saccade {

void add_bench_selftest(CLI::App& bench_app, int& exit_code) {
  auto settings = std::make_shared<bench::SelftestSettings>();
  CLI::App* const app =
      bench_app.add_subcommand("selftest", "Measure a server of programmed behaviour, and compare");
  app->add_option("--seconds", settings->seconds, "of each measurement")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  app->add_option("--threads", settings->threads, "of the client")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app->add_option("--server", settings->server,
                  "only the rate against this `saccade bench mock`, http://host:port");
  app->add_option("--tokens", settings->tokens, "of an answer, with --server")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app->add_option("--concurrency", settings->concurrency, "of the closed loops")
      ->check(CLI::Range(1, 20'000))
      ->capture_default_str();
  app->callback([settings, &exit_code] {
    const auto show = [](const bench::SelftestRow& row) {
      const std::string line = bench::to_line(row);
      std::fwrite(line.data(), 1, line.size(), stdout);
      std::fflush(stdout);
    };
    const auto rows = bench::run_selftest(*settings, show);
    if (!rows) {
      exit_code = finish(tl::unexpected<Error>(rows.error()));
      return;
    }
    std::size_t failed = 0;
    for (const bench::SelftestRow& row : *rows) failed += row.ok ? 0 : 1;
    if (failed > 0) {
      std::fprintf(stderr, "saccade bench selftest: %zu of %zu figures are off\n", failed,
                   rows->size());
    }
    exit_code = failed > 0 ? 1 : 0;
  });
}

}  // namespace saccade
