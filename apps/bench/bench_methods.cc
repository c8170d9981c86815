// The published methods of `saccade bench`, one command each, and the search for the highest rate.
#include <filesystem>

#include "apps/bench/bench_commands.h"
#include "apps/bench/local_embedder.h"
#include "base/threads/end_signals.h"
#include "bench/load/leg_runner.h"
#include "bench/load/rate_search.h"
#include "bench/methods/image_size_table.h"
#include "bench/methods/profile_ttft.h"
#include "bench/methods/seed_methods.h"
#include "bench/metrics/text_similarity.h"
#include "model/checkpoint/checkpoint.h"

namespace saccade {
namespace {

using Interpretations = std::vector<std::function<Result<void>()>>;
using Method = std::function<Result<bench::MethodOutcome>(std::atomic<bool>&)>;

// What every method has beside its own: how the server is treated, and what is kept.
void add_run_options(CLI::App& app, bench::ServeSettings& s) {
  app.add_option("--ready-check-timeout-sec", s.check.ready_timeout_s,
                 "wait this long for the server");
  app.add_option("--num-warmups", s.check.num_warmups, "distinct requests that are not measured")
      ->capture_default_str();
  app.add_option("--scrape-period", s.check.scrape_period_s,
                 "of /metrics and memory, seconds; 0: never")
      ->capture_default_str();
  app.add_option("--server-cmd", s.check.server_cmd, "starts the server; it is stopped at the end");
  app.add_option("--server-log", s.check.server_log, "output of --server-cmd");
  app.add_option("--threads", s.load.threads, "of the client")->capture_default_str();
  app.add_option("--log", s.output.log, "run log (docs/run-format.md)");
  app.add_flag("--keep-texts", s.output.keep_texts, "prompts and answers in the log");
  app.add_flag("!--disable-tqdm", s.output.progress, "no progress line");
}

// Checks and interprets what was typed, runs the method, prints what it found.
void call_back(CLI::App& app, const std::shared_ptr<bench::ServeSettings>& settings,
               const std::shared_ptr<Interpretations>& interpretations, Method method,
               int& exit_code) {
  app.callback([settings, interpretations, method = std::move(method), &exit_code] {
    const auto outcome = [&]() -> Result<bench::MethodOutcome> {
      for (const auto& interpret : *interpretations) TRY_DO(interpret());
      settings->argv = typed_arguments();
      TRY_DO(bench::check(*settings));
      return method(stop_flag());
    }();
    exit_code = finish(outcome.map([](const auto& done) { return done.text; }));
    if (outcome) exit_code = outcome->exit_code;
  });
}

void add_trace_run(CLI::App& bench_app, int& exit_code) {
  auto run = std::make_shared<bench::TraceRunSettings>();
  const std::shared_ptr<bench::ServeSettings> settings(run, &run->serve);
  auto interpretations = std::make_shared<Interpretations>();
  CLI::App* const app = bench_app.add_subcommand(
      "trace-run", "Replay a peak trace with captioned images, keeping the answers");
  settings->target.backend = "openai-chat";
  settings->data.name = "hf";
  settings->data.path = "chc-tw/ShareGPT-4o";
  settings->data.num_prompts = 1'000'000;  // as many as the trace has
  add_serve_options(*app, settings, *interpretations);
  app->add_option("--task-name", run->task_name, "folder of the results, below --experiments")
      ->capture_default_str();
  app->add_option("--experiments", run->experiments, "folder of all tasks")->capture_default_str();
  app->add_option("--api-port", settings->target.port, "the same as --port");
  app->add_option("--max-requests-per-run", settings->data.num_prompts,
                  "the same as --num-prompts");
  app->add_option(
         "--max-time-per-run", run->max_time_per_run_min,
         "minutes; no request begins later (--drain-limit: how long answers may then take)")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  call_back(
      *app, settings, interpretations,
      [run](std::atomic<bool>& stop) { return bench::trace_run(*run, stop); }, exit_code);
}

void add_profile_ttft(CLI::App& bench_app, int& exit_code) {
  auto profile = std::make_shared<bench::ProfileSettings>();
  const std::shared_ptr<bench::ServeSettings> settings(profile, &profile->serve);
  auto interpretations = std::make_shared<Interpretations>();
  auto sizes = std::make_shared<std::string>();
  CLI::App* const app = bench_app.add_subcommand(
      "profile-ttft", "TTFT of one image request after image size, and a curve through it");
  settings->target.backend = "openai-chat";
  add_target_options(*app, settings->target);
  app->get_option("--port")->envname("PROXY_PORT");
  add_run_options(*app, *settings);
  app->add_option("--sizes", *sizes, "sides of square noise images: 1700..3840, or 256,512,1024");
  app->add_option("--file", profile->files, "image files instead")->envname("FILE");
  app->add_flag("--file-urls", profile->file_urls, "send files as file:// URLs");
  app->add_option("--repeats", profile->repeats, "requests an image; their median counts")
      ->capture_default_str();
  app->add_option("--seed", settings->seed, "of the noise")->capture_default_str();
  app->add_option("-o,--output", profile->output, "JSON with every point and the curve");
  interpretations->push_back([profile, sizes]() -> Result<void> {
    if (sizes->empty()) return {};
    TRY(profile->sides, bench::parse_sides(*sizes));
    return {};
  });
  call_back(
      *app, settings, interpretations,
      [profile](std::atomic<bool>& stop) -> Result<bench::MethodOutcome> {
        TRY(std::string text, bench::profile_ttft(*profile, stop));
        return bench::MethodOutcome{std::move(text), 0};
      },
      exit_code);
}

constexpr std::string_view kPublishedEncoder = "sentence-transformers/all-MiniLM-L6-v2";

void add_similarity(CLI::App& bench_app, int& exit_code) {
  struct Flags {
    std::string path;
    std::string encoder;
    bench::EmbeddingServer server;
    std::string api_key;
  };
  auto flags = std::make_shared<Flags>();
  flags->server.target.base_url.clear();
  CLI::App* const app = bench_app.add_subcommand(
      "similarity",
      "How alike answers and references are: ROUGE-L, token F1, multiple choice, embeddings");
  app->add_option("FILE,--file-path", flags->path, "result of trace-run, or a run log with texts")
      ->required();
  CLI::Option* const encoder = app->add_option(
      "--encoder", flags->encoder,
      "sentence encoder to load for the embedding cosine: a folder, or ORG/NAME in HF_HOME; "
      "default: the published one, if the cache has it");
  app->add_option("--embedding-url", flags->server.target.base_url,
                  "or a server that answers /v1/embeddings: http://127.0.0.1:8000")
      ->excludes(encoder);
  app->add_option("--embedding-model", flags->server.model,
                  "its name there; otherwise the first of /v1/models");
  app->add_option("--api-key", flags->api_key, "of that server");
  app->callback([flags, &exit_code] {
    exit_code = finish([&]() -> Result<std::string> {
      bench::Embedder embedder;
      if (!flags->encoder.empty()) {
        TRY(embedder, load_embedder(flags->encoder));
      } else if (!flags->server.target.base_url.empty()) {
        if (!flags->api_key.empty())
          flags->server.target.headers.emplace_back("Authorization", "Bearer " + flags->api_key);
        TRY(embedder, bench::make_embedder(flags->server));
      } else if (const auto cached = resolve_checkpoint(kPublishedEncoder)) {
        TRY(embedder, load_embedder(*cached));
      } else {
        bench::note(
            fmt::format("without the published cosine: {0} is not in the cache; `saccade "
                        "model pull {0}` (90 MB) fetches it, or --encoder names a folder",
                        kPublishedEncoder));
      }
      return bench::similarity_report(flags->path, embedder);
    }());
  });
}

void add_image_sizes(CLI::App& bench_app, int& exit_code) {
  struct Flags {
    std::vector<std::string> paths;
    bench::ImageSizeTableSettings table;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* const app = bench_app.add_subcommand(
      "image-sizes", "A table of runs that differ in --image-size: in time, tokens kept, right");
  app->add_option("FILE", flags->paths,
                  "run logs of one or more traces, with --metadata image_size=MODE trace=ID")
      ->required();
  app->add_option("--target", flags->table.target_s, "time to first token in time, in seconds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--time-scale", flags->table.time_scale,
                  "seconds of the runs in one published second")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_flag("!--no-published", flags->table.published, "without the published lines");
  app->callback([flags, &exit_code] {
    exit_code = finish(bench::image_size_table(flags->paths, flags->table));
  });
}

void add_dashinfer(CLI::App& bench_app, int& exit_code) {
  auto run = std::make_shared<bench::DashInferRunSettings>();
  const std::shared_ptr<bench::ServeSettings> settings(run, &run->serve);
  CLI::App* const app = bench_app.add_subcommand(
      "dashinfer", "DashInfer-VLM's closed loop of questions about images, and its four lines");
  settings->target.backend = "openai-chat";
  add_target_options(*app, settings->target);
  add_run_options(*app, *settings);
  bench::DashInferSettings& d = run->data;
  app->add_option("--prompt-file", d.prompt_file, "JSON lines with conversations")->required();
  app->add_option("--image-folder", d.image_folder, "with the images")->required();
  app->add_option("--req-nums", d.req_nums, "conversations")->capture_default_str();
  app->add_option("--batch-size", run->batch_size, "conversations at once")->capture_default_str();
  app->add_option("--image-nums-mean", d.image_nums_mean, "images of a turn")
      ->capture_default_str();
  app->add_option("--image-nums-range", d.image_nums_range, "how far their number may be off")
      ->capture_default_str();
  app->add_option("--response-mean", d.response_mean, "tokens")->capture_default_str();
  app->add_option("--response-len-range", d.response_len_range,
                  "how far an answer's tokens may be off")
      ->capture_default_str();
  app->add_option("--multi-turn", d.multi_turn, "turns before the last")->capture_default_str();
  app->add_option("--frequency", run->frequency, "conversations submitted per second")
      ->capture_default_str();
  app->add_flag("--wrap-images", d.wrap_images, "begin again when the images run out");
  app->add_flag("!--inline-images", d.file_urls, "send the images' bytes, not file:// URLs");
  app->add_flag("!--honour-eos", run->ignore_eos, "let answers end early");
  call_back(
      *app, settings, std::make_shared<Interpretations>(),
      [run](std::atomic<bool>& stop) { return bench::dashinfer_run(*run, stop); }, exit_code);
}

void add_summarization(CLI::App& bench_app, int& exit_code) {
  auto run = std::make_shared<bench::SummarizationSettings>();
  const std::shared_ptr<bench::ServeSettings> settings(run, &run->serve);
  auto interpretations = std::make_shared<Interpretations>();
  CLI::App* const app = bench_app.add_subcommand(
      "summarization", "SQZB's two runs: prefill and generation told apart");
  settings->body.stream = false;
  settings->data.num_prompts = 1024;
  add_serve_options(*app, settings, *interpretations);
  app->add_flag("--stream", settings->body.stream, "stream the answers");
  app->add_option("--dataset", settings->data.path, "the same as --dataset-path");
  app->add_option("--max-input-len", run->max_input_len, "tokens of a prompt")
      ->capture_default_str();
  app->add_option("--max-output-len", run->max_output_len, "tokens of an answer, first run")
      ->capture_default_str();
  app->add_option("--stop-token-ids", run->stop_token_ids, "with a dataset");
  app->add_option("-n,--num-requests", settings->data.num_prompts, "the same as --num-prompts");
  app->add_option("--concurrency", settings->load.max_concurrency, "the same as --max-concurrency");
  app->add_flag("--allow-warm", run->allow_warm, "both runs on one server that caches nothing");
  app->add_option("--folder", run->folder, "of the logs of single runs")->capture_default_str();
  app->add_option("--summarize", run->summarize, "two run logs, or the folder of both: no run")
      ->expected(1, 2);
  call_back(
      *app, settings, interpretations,
      [run](std::atomic<bool>& stop) { return bench::summarization_run(*run, stop); }, exit_code);
}

void add_kit(CLI::App& kits, bool vision, int& exit_code) {
  auto kit = std::make_shared<bench::KitSettings>();
  const std::shared_ptr<bench::ServeSettings> settings(kit, &kit->serve);
  kit->vision = vision;
  CLI::App* const app = kits.add_subcommand(
      vision ? "vision" : "text", vision ? "noise images: profiles 1 (50 in, 300 out), 2 (100, 100)"
                                         : "profiles high, mid (200 in, 250 out), low (100, 150)");
  settings->target.port = 5000;
  if (std::filesystem::exists("fake_model/tokenizer.json"))
    settings->target.tokenizer = "fake_model";
  add_target_options(*app, settings->target);
  app->remove_option(app->get_option("--backend"));
  add_run_options(*app, *settings);
  if (vision) {
    app->add_option("WIDTH", kit->width, "of the image, in pixels")
        ->check(CLI::Range(1, 16384))
        ->capture_default_str();
    app->add_option("HEIGHT", kit->height, "of the image, in pixels")
        ->check(CLI::Range(1, 16384))
        ->capture_default_str();
  }
  app->add_option("--output", kit->output, "folder of the results")->capture_default_str();
  app->add_option("--profile", kit->profiles, vision ? "1, 2" : "high, mid, low");
  app->add_option("--seed", settings->seed, "of its random numbers")->capture_default_str();
  call_back(
      *app, settings, std::make_shared<Interpretations>(),
      [kit](std::atomic<bool>& stop) { return bench::kit_run(*kit, stop); }, exit_code);
}

void add_search(CLI::App& bench_app, int& exit_code) {
  auto search = std::make_shared<bench::SearchSettings>();
  const std::shared_ptr<bench::ServeSettings> settings(search, &search->serve);
  auto interpretations = std::make_shared<Interpretations>();
  auto percent = std::make_shared<double>(99);
  CLI::App* const app = bench_app.add_subcommand(
      "search", "The highest request rate at which enough requests meet the --goodput targets");
  add_serve_options(*app, settings, *interpretations);
  app->add_option("--attainment", *percent, "per cent of the requests that must meet them all")
      ->capture_default_str();
  app->add_option("--first-rate", search->first_rate, "where the search begins, per second")
      ->capture_default_str();
  app->add_option("--precision", search->precision, "relative width at which it ends")
      ->capture_default_str();
  app->add_option("--confirmations", search->confirmations, "more runs at the rate that was found")
      ->capture_default_str();
  app->add_option("--max-runs", search->max_runs, "most runs of the search")->capture_default_str();
  interpretations->push_back([search, percent]() -> Result<void> {
    search->attainment = *percent / 100;
    return {};
  });
  call_back(
      *app, settings, interpretations,
      [search](std::atomic<bool>& stop) { return bench::search_run(*search, stop); }, exit_code);
}

}  // namespace

void add_bench_methods(CLI::App& bench_app, int& exit_code) {
  add_trace_run(bench_app, exit_code);
  add_profile_ttft(bench_app, exit_code);
  add_similarity(bench_app, exit_code);
  add_image_sizes(bench_app, exit_code);
  add_dashinfer(bench_app, exit_code);
  add_summarization(bench_app, exit_code);
  CLI::App* const kits = bench_app.add_subcommand("kit", "A test kit's profiles in a row");
  kits->require_subcommand(1);
  add_kit(*kits, false, exit_code);
  add_kit(*kits, true, exit_code);
  add_search(bench_app, exit_code);
}

}  // namespace saccade
