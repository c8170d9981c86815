// `saccade bench report` and `saccade bench compare`.
#include "apps/bench/bench_commands.h"
#include "bench/reports/report_command.h"

namespace saccade {

void add_bench_report(CLI::App& bench_app, int& exit_code) {
  auto paths = std::make_shared<std::vector<std::string>>();
  auto settings = std::make_shared<bench::ReportSettings>();
  auto metrics = std::make_shared<std::string>("ttft,tpot,itl");
  auto percentiles = std::make_shared<std::string>("99");
  CLI::App* const app = bench_app.add_subcommand("report", "Recompute every figure from run logs");
  app->add_option("FILE", *paths, "run logs, or folders of them")->required();
  app->add_option("--compat", settings->compat,
                  "whose definitions: saccade, vllm, vllm-2024, sglang, "
                  "genai-bench, guidellm, sqzb")
      ->capture_default_str();
  app->add_option("--format", settings->format,
                  "text, vllm-json, sglang, genai-json, csv, markdown, svg, jsonl (appends)")
      ->capture_default_str();
  app->add_option("-o,--output", settings->output, "file to write; without it, standard output");
  app->add_option("--html", settings->html,
                  "file to write: the runs with charts, overlaid and compared with the first")
      ->excludes("--output")
      ->excludes("--format");
  app->add_option("--percentile-metrics", *metrics,
                  "metrics whose percentiles are shown, separated by commas")
      ->capture_default_str();
  app->add_option("--metric-percentiles", *percentiles, "which percentiles, separated by commas")
      ->capture_default_str();
  app->add_option("--goodput", settings->goodput, "ttft:MS tpot:MS e2el:MS");
  app->add_flag("--save-detailed", settings->vllm.save_detailed, "vllm-json: per-request arrays");
  app->add_option("--scenario", settings->genai.scenario, "genai-json")->capture_default_str();
  app->add_option("--level", settings->genai.level, "genai-json: concurrency")
      ->capture_default_str();
  app->add_option("--svg-metric", settings->svg_metric,
                  "ttft, ttft_from_schedule, tpot, itl, e2el, e2el_from_schedule")
      ->capture_default_str();
  app->add_option("--svg-max", settings->svg_max_s, "right end of the axis in seconds");
  app->add_flag("--brief", settings->brief, "text: the block alone");
  app->callback([=, &exit_code] {
    exit_code = finish([&]() -> Result<std::string> {
      if (settings->compat == "vllm-2024") settings->vllm.labels = bench::VllmLabels::k2024;
      TRY(settings->vllm.percentile_metrics, bench::parse_percentile_metrics(*metrics));
      TRY(settings->vllm.percentiles, bench::parse_percentiles(*percentiles));
      return bench::report_files(*paths, *settings);
    }());
  });
}

void add_bench_compare(CLI::App& bench_app, int& exit_code) {
  struct Arguments {
    std::string a;
    std::string b;
    std::string compat = "saccade";
    std::vector<std::string> goodput;
    bench::CompareSettings settings;
  };
  auto args = std::make_shared<Arguments>();
  CLI::App* const app = bench_app.add_subcommand(
      "compare", "Is B better than A? Exit code 1 when any metric is worse");
  app->add_option("A", args->a, "run log, directory of run logs, or several with commas")
      ->required();
  app->add_option("B", args->b, "as A")->required();
  app->add_option("--compat", args->compat, "whose definitions of the metrics")
      ->capture_default_str();
  app->add_option("--goodput", args->goodput, "ttft:MS tpot:MS e2el:MS");
  app->add_option("--confidence", args->settings.confidence, "of the intervals, as a share")
      ->check(CLI::Range(0.5, 0.9999))
      ->capture_default_str();
  app->add_option("--min-effect", args->settings.min_effect,
                  "relative difference below which nothing is called better or worse")
      ->capture_default_str();
  app->add_option("--seed", args->settings.seed, "of the bootstrap")->capture_default_str();
  app->callback([args, &exit_code] {
    auto outcome =
        bench::compare_files(args->a, args->b, args->compat, args->goodput, args->settings);
    if (!outcome) {
      exit_code = finish(fail(std::move(outcome).error()));
      return;
    }
    finish(outcome->text);
    exit_code = outcome->any_worse ? 1 : 0;
  });
}

}  // namespace saccade
