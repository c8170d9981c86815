// `saccade bench trace`: what traces are like, and traces with a given peak.
#include "apps/bench/bench_commands.h"
#include "apps/flags/choice_flag.h"
#include "bench/traces/trace_command.h"

namespace saccade {
namespace {

// Seconds on the command line, as nanoseconds.
CLI::Option* add_seconds(CLI::App& app, const std::string& flag, Nanos& into,
                         const std::string& help) {
  return app.add_option_function<double>(
      flag, [&into](double s) { into = static_cast<Nanos>(s * 1e9); }, help);
}

void add_window(CLI::App& app, bench::TraceWindow& window) {
  add_seconds(app, "--start", window.start, "leave out requests before this time, in seconds");
  add_seconds(app, "--end", window.end, "leave out requests from this time on, in seconds");
  app.add_option("--limit", window.limit, "keep at most this many requests");
  app.add_option("--speed", window.speed, "2 halves all gaps")->capture_default_str();
}

void add_stat(CLI::App& trace, int& exit_code) {
  auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* const app = trace.add_subcommand("stat", "Rates, peaks, gaps, lengths, reuse");
  app->add_option("FILE", *paths, "gap file, Azure or BurstGPT CSV, Mooncake JSON lines")
      ->required();
  app->callback([paths, &exit_code] { exit_code = finish(bench::trace_stat(*paths)); });
}

void add_make(CLI::App& trace, int& exit_code) {
  auto settings = std::make_shared<bench::TraceMakeSettings>();
  auto window_s = std::make_shared<double>(1.0);
  auto sliding = std::make_shared<bool>(false);
  CLI::App* const app = trace.add_subcommand("make", "Make a trace with a given peak rate");
  bench::GenerateSettings& generate = settings->generate;
  app->add_option("--peak", generate.peak.per_second, "most arrivals in a window, per second")
      ->required();
  app->add_option("--peak-window", *window_s, "length of the window in seconds")
      ->capture_default_str();
  app->add_flag("--sliding", *sliding, "any window, instead of bins from the origin");
  add_choice(*app, "--method", settings->method, bench::kTraceMethods,
             "thin: drop arrivals; scale: stretch time; cap: move arrivals; generate: gamma gaps")
      ->capture_default_str();
  app->add_option("--from", settings->source, "trace to start from");
  app->add_option("--seed", generate.seed, "generate: of its random numbers")
      ->capture_default_str();
  app->add_option("--mean-rate", generate.mean_rate, "generate: requests per second")
      ->capture_default_str();
  app->add_option("--gap-cv", generate.gap_cv,
                  "generate: standard deviation of gaps over their mean")
      ->capture_default_str();
  app->add_option("--duration", generate.duration_s, "generate: seconds")->capture_default_str();
  app->add_option("--format", settings->format, "gaps, azure, burstgpt, mooncake");
  app->add_option("--note", settings->notes, "key=value for the file's header");
  app->add_option("-o,--output", settings->output, "file to write; without it, standard output");
  add_window(*app, settings->window);
  app->callback([settings, window_s, sliding, &exit_code] {
    bench::Peak& peak = settings->generate.peak;
    peak.width = static_cast<Nanos>(*window_s * 1e9);
    peak.window = *sliding ? bench::PeakWindow::kSliding : bench::PeakWindow::kBins;
    exit_code = finish(bench::trace_make(*settings));
  });
}

void add_convert(CLI::App& trace, int& exit_code) {
  auto settings = std::make_shared<bench::TraceConvertSettings>();
  CLI::App* const app = trace.add_subcommand("convert", "Rewrite a trace in another format");
  app->add_option("FILE", settings->source, "the trace")->required();
  app->add_option("--format", settings->format, "gaps, azure, burstgpt, mooncake")
      ->capture_default_str();
  app->add_option("-o,--output", settings->output, "file to write; without it, standard output");
  app->add_option("--timestamp-label", settings->labels.timestamp, "member or column of the time")
      ->capture_default_str();
  app->add_option("--timestamp-unit", settings->labels.timestamp_unit_s, "seconds")
      ->capture_default_str();
  add_window(*app, settings->window);
  app->callback([settings, &exit_code] { exit_code = finish(bench::trace_convert(*settings)); });
}

}  // namespace

void add_bench_trace(CLI::App& bench_app, int& exit_code) {
  CLI::App* const trace = bench_app.add_subcommand("trace", "Request traces");
  trace->require_subcommand(1);
  add_stat(*trace, exit_code);
  add_make(*trace, exit_code);
  add_convert(*trace, exit_code);
}

}  // namespace saccade
