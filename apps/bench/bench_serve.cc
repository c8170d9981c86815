// `saccade bench serve`: the options of vLLM's client, and more. A long list, in the groups of
// serve_settings.h.
#include <cstdlib>

#include "apps/bench/bench_commands.h"
#include "apps/flags/choice_flag.h"
#include "base/threads/end_signals.h"
#include "bench/serve_command.h"

namespace saccade {
namespace {

using Settings = std::shared_ptr<bench::ServeSettings>;

// What parses to something else than a plain field.
struct Raw {
  std::string percentile_metrics = "ttft,tpot,itl";
  std::string metric_percentiles = "99";
  std::string request_rate = "inf";
  std::string burstiness = "1.0";
  std::string request_id_prefix;
  std::string tokenizer_mode;
  bool ignored = false;
};

// A number, or "inf".
Result<double> number_or_inf(const std::string& text, std::string_view option) {
  if (text == "inf" || text == "Infinity") return std::numeric_limits<double>::infinity();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0')
    return fail(ErrorCode::kInvalid, "{} '{}' is neither a number nor inf", option, text);
  return value;
}

}  // namespace

void add_target_options(CLI::App& app, bench::TargetChoice& t) {
  app.add_option("--backend,--endpoint-type", t.backend, "openai, openai-chat, vllm, vllm-chat")
      ->capture_default_str();
  app.add_option("--base-url", t.base_url, "server, instead of host and port; may end in /v1");
  app.add_option("--host", t.host, "of the server, without --base-url")->capture_default_str();
  app.add_option("--port", t.port, "of the server, without --base-url")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--endpoint", t.endpoint, "path behind the base URL; by backend when not given");
  app.add_option("--header", t.headers, "KEY=VALUE, with every request");
  app.add_flag("--insecure", t.insecure, "do not verify the server's certificate");
  app.add_option("--ca-file", t.ca_file, "PEM file of trusted certificates");
  app.add_flag("--fresh-connections", t.fresh_connections, "one connection a request");
  app.add_option("--model", t.model, "name; the server's first when not given");
  app.add_option("--served-model-name", t.served_model_name, "sent instead of --model");
  app.add_option("--lora-modules", t.lora_modules,
                 "adapters of the server: each request names one of them as its model")
      ->expected(1, -1);
  constexpr std::array<Named<bool>, 2> kInTurn{{{"random", false}, {"round-robin", true}}};
  add_choice(app, "--lora-assignment", t.lora_in_turn, kInTurn,
             "which: random, by --seed, or round-robin")
      ->capture_default_str();
  app.add_option("--tokenizer", t.tokenizer, "directory with tokenizer.json, to count tokens");
  app.add_flag("--skip-tokenizer-init", t.skip_tokenizer, "count by the server's usage alone");
}

namespace {

void add_data(CLI::App& app, bench::DataChoice& d) {
  app.add_option("--dataset-name", d.name,
                 "random, random-mm, prefix_repetition, sharegpt, sharegpt4o, sonnet, custom, "
                 "custom_image, hf, multi-turn, tokens, trace, timed_trace, burstgpt")
      ->capture_default_str();
  app.add_option("--dataset-path", d.path, "file, directory or hub id");
  app.add_option("--num-prompts", d.num_prompts, "requests")->capture_default_str();
  app.add_option("--input-len", d.input_len, "over the dataset's own option");
  app.add_option("--output-len", d.output_len, "over the dataset's own option");
  app.add_flag("--no-oversample", d.no_oversample, "fewer rows than prompts: fewer requests");
  app.add_flag("--disable-shuffle", d.disable_shuffle, "take the dataset in its own order");
  app.add_option("--scenario,--traffic-scenario", d.scenario,
                 "genai-bench's language: D(100,100), N(480,240)/(300,150), I(512,512), ...");
}

void add_random_data(CLI::App& app, bench::DataChoice& d) {
  bench::RandomSettings& text = d.random.text;
  app.add_option("--random-input-len", text.input_len, "tokens of a prompt")->capture_default_str();
  app.add_option("--random-output-len", text.output_len, "tokens of an answer")
      ->capture_default_str();
  app.add_option("--random-prefix-len", text.prefix_len, "tokens that all prompts begin with")
      ->capture_default_str();
  app.add_option("--random-range-ratio", d.range_ratio, "of lengths; see docs/measuring.md");
  app.add_flag("--random-one-token", text.one_token_repeated, "one token, repeated");
  app.add_option("--random-mm-base-items-per-request", d.random.images, "images of a request")
      ->capture_default_str();
  app.add_option("--random-mm-num-mm-items-range-ratio", d.random.images_range_ratio,
                 "how far their number may be off, as a share")
      ->capture_default_str();
  app.add_option("--random-mm-limit-mm-per-prompt-images", d.random.max_images,
                 "most images of a request")
      ->capture_default_str();
  app.add_option("--random-mm-bucket-config", d.image_buckets,
                 "{(height, width, 1): probability, ...}");
  app.add_option("--image-pattern", d.image_pattern, "noise, gradient, blocks, text-page")
      ->capture_default_str();
  app.add_option("--image-encoding", d.image_encoding, "jpeg, jpeg85, png")->capture_default_str();
  app.add_option("--image-reuse", d.random.reuse.reuse,
                 "chance that an image repeats an earlier one")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--unique-images", d.random.reuse.unique_images, "at most this many; 0: no limit");
  app.add_option("--image-folder", d.image_folder, "of custom and captioned rows");
  app.add_flag("--images-first", d.images_first,
               "a message's images before its text, not as the dataset has them");
}

void add_dataset_data(CLI::App& app, bench::DataChoice& d) {
  app.add_option("--sharegpt-output-len", d.sharegpt_output_len,
                 "tokens of an answer, instead of the dataset's");
  app.add_option("--sonnet-input-len", d.sonnet.input_len, "tokens of a prompt")
      ->capture_default_str();
  app.add_option("--sonnet-output-len", d.sonnet.output_len, "tokens of an answer")
      ->capture_default_str();
  app.add_option("--sonnet-prefix-len", d.sonnet.prefix_len, "tokens that all prompts begin with")
      ->capture_default_str();
  app.add_option("--custom-output-len", d.custom_output_len, "tokens of an answer")
      ->capture_default_str();
  app.add_option("--prefix-repetition-prefix-len", d.prefix.prefix_len,
                 "tokens of a shared beginning")
      ->capture_default_str();
  app.add_option("--prefix-repetition-suffix-len", d.prefix.suffix_len,
                 "tokens behind it, of each prompt its own")
      ->capture_default_str();
  app.add_option("--prefix-repetition-num-prefixes", d.prefix.num_prefixes, "shared beginnings")
      ->capture_default_str();
  app.add_option("--prefix-repetition-output-len", d.prefix.output_len, "tokens of an answer")
      ->capture_default_str();
  app.add_option(
         "--prefix-hit-rate", d.prefix.target_hit_rate,
         "share of prompt tokens that a prefix cache can hit, instead of a number of prefixes")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--hf-subset", d.hf_subset, "of a dataset with several");
  app.add_option("--hf-split", d.hf_split, "train, test, ...");
  app.add_option("--hf-output-len", d.hf_output_len,
                 "tokens of an answer, instead of the dataset's");
  app.add_option("--tokens-column", d.tokens.column, "column with the token ids")
      ->capture_default_str();
  app.add_option("--tokens-vocab-size", d.tokens.vocab_size, "of random ids")
      ->capture_default_str();
  app.add_option("--max-turns", d.max_turns, "of a conversation; 0: all");
  app.add_flag("--row-by-request-number", d.row_by_request_number,
               "captions: row floor(Random(i).random() * rows) for request i");
}

void add_load(CLI::App& app, bench::LoadChoice& l, bench::DataChoice& d, Raw& raw) {
  app.add_option("--request-rate", raw.request_rate, "per second, or inf")->capture_default_str();
  app.add_option("--burstiness", raw.burstiness, "1: Poisson; below: bursts; inf: even gaps")
      ->capture_default_str();
  app.add_option("--max-concurrency", l.max_concurrency, "requests at once; 0: no cap");
  app.add_flag("--closed-loop", l.closed_loop, "always --max-concurrency requests at once");
  app.add_option("--num-concurrency", l.levels, "closed loops, one run each");
  app.add_option("--request-rate-sweep", l.rate_sweep, "first:last:step, one run each");
  constexpr std::array<Named<bench::RampUp>, 2> kRampUps{
      {{"linear", bench::RampUp::kLinear}, {"exponential", bench::RampUp::kExponential}}};
  add_choice(app, "--ramp-up-strategy", l.arrivals.ramp_up, kRampUps,
             "how the rate grows: linear or exponential");
  app.add_option("--ramp-up-start-rps", l.arrivals.ramp_up_start_rps, "requests a second at first");
  app.add_option("--ramp-up-end-rps", l.arrivals.ramp_up_end_rps, "and in the end");
  app.add_option("--duration", l.duration_s, "no request begins later than this, in seconds");
  app.add_option("--drain-limit", l.drain_s, "then, how long answers may take to end")
      ->capture_default_str();
  app.add_option("--request-timeout", l.timeout_s, "seconds")->capture_default_str();
  app.add_option("--threads", l.threads, "of the client")->capture_default_str();
  app.add_option("--trace,--trace-file", l.trace,
                 "arrivals of a trace; 4, 5, 7, 10: the shipped ones");
  app.add_option("--trace-speed", l.window.speed, "how many times faster than it was recorded")
      ->capture_default_str();
  app.add_option("--trace-limit", l.window.limit, "requests");
  app.add_option("--trace-max-images", l.window.max_images, "of a request");
  app.add_option_function<double>(
      "--trace-start", [&l](double s) { l.window.start = static_cast<Nanos>(s * 1e9); }, "seconds");
  app.add_option_function<double>(
      "--trace-end", [&l](double s) { l.window.end = static_cast<Nanos>(s * 1e9); }, "seconds");
  app.add_option("--timed-trace-label-timestamp", l.labels.timestamp, "member of the time")
      ->capture_default_str();
  app.add_option("--timed-trace-label-input-length", l.labels.input_length,
                 "member of the prompt's tokens")
      ->capture_default_str();
  app.add_option("--timed-trace-label-output-length", l.labels.output_length,
                 "member of the answer's tokens")
      ->capture_default_str();
  app.add_option("--timed-trace-label-hash-ids", l.labels.hash_ids,
                 "member of the names of shared blocks")
      ->capture_default_str();
  app.add_option("--timed-trace-sec-multiplier", l.labels.timestamp_unit_s,
                 "seconds that one unit of time is")
      ->capture_default_str();
  app.add_option("--timed-trace-chunk-hash-size", d.trace_text.block_tokens,
                 "tokens of a prefix block")
      ->capture_default_str();
}

void add_body(CLI::App& app, bench::ServeSettings& s) {
  bench::BodySettings& b = s.body;
  app.add_flag("--ignore-eos", b.ignore_eos, "answers of the full length");
  app.add_option("--temperature", b.temperature, "sent with each request");
  app.add_option("--top-p", b.top_p, "sent with each request");
  app.add_option("--top-k", b.top_k, "sent with each request");
  app.add_option("--min-p", b.min_p, "sent with each request");
  app.add_option("--frequency-penalty", b.frequency_penalty, "sent with each request");
  app.add_option("--presence-penalty", b.presence_penalty, "sent with each request");
  app.add_option("--repetition-penalty", b.repetition_penalty, "sent with each request");
  app.add_option("--logprobs", b.logprobs, "most likely tokens to ask for");
  app.add_flag("!--no-stream", b.stream, "one answer instead of a stream");
  app.add_option("--extra-body", s.extra_body, "JSON object, into every request");
  app.add_option("--chat-template-kwargs", s.chat_template_kwargs, "JSON object");
  app.add_option("--continuous-usage-stats", s.continuous_usage,
                 "true or false; tried when not given");
  app.add_flag("--server-timings", s.server_timings, "ask the server for stage times (Saccade)");
  app.add_option("--seed", s.seed, "of prompts, arrivals and sampling")->capture_default_str();
}

void add_checks(CLI::App& app, bench::CheckChoice& c) {
  app.add_option("--ready-check-timeout-sec", c.ready_timeout_s, "wait this long for the server");
  app.add_option("--num-warmups", c.num_warmups, "distinct requests that are not measured")
      ->capture_default_str();
  app.add_flag("--reset-cache", c.reset_cache, "empty the server's caches before each run");
  app.add_flag("--require-cold", c.require_cold, "exit code 1 when its cache knew the prompts");
  app.add_flag("--profile", c.profile, "/start_profile and /stop_profile around the run");
  app.add_option("--scrape-period", c.scrape_period_s, "of /metrics and memory, seconds; 0: never")
      ->capture_default_str();
  app.add_option("--max-failures", c.max_failures,
                 "failed requests without exit code 1; below 1 a share of all")
      ->capture_default_str();
  app.add_option("--server-cmd", c.server_cmd, "started before and stopped after every run");
  app.add_option("--server-log", c.server_log, "output of --server-cmd");
  app.add_option("--repeat", c.repeat, "runs of each load")->capture_default_str();
}

void add_output(CLI::App& app, bench::OutputChoice& o, Raw& raw) {
  app.add_option("--compat", o.compat,
                 "definitions of saccade, vllm, vllm-2024, sglang, genai-bench, guidellm, sqzb")
      ->capture_default_str();
  app.add_option("--label", o.label, "of the run, in the results");
  app.add_option("--metadata", o.metadata, "KEY=VALUE, into the results");
  app.add_flag("--save-result", o.save_result, "JSON with vLLM's keys, and the run log beside it");
  app.add_flag("--save-detailed", o.vllm.save_detailed, "with the per-request arrays");
  app.add_flag("--append-result", o.append_result, "a line at the end of the result file");
  app.add_option("--result-dir", o.result_dir, "folder of the results");
  app.add_option("--result-filename", o.result_filename,
                 "of the results, instead of a name made of the run");
  app.add_option("--log", o.log, "run log (docs/run-format.md)");
  app.add_option("--csv", o.csv, "a line per request");
  app.add_option("--html", o.html, "report");
  app.add_option("--svg", o.svg, "TTFT distribution");
  app.add_option("--genai-json", o.genai, "genai-bench's JSON");
  app.add_flag("--keep-texts", o.keep_texts, "prompts and answers in the log");
  app.add_flag("!--disable-tqdm", o.progress, "no progress line");
  app.add_flag("--brief", o.brief, "print the block alone");
  app.add_option("--percentile-metrics", raw.percentile_metrics,
                 "metrics whose percentiles are shown, separated by commas")
      ->capture_default_str();
  app.add_option("--metric-percentiles", raw.metric_percentiles,
                 "which percentiles, separated by commas")
      ->capture_default_str();
  app.add_option("--goodput", o.goodput, "ttft:MS tpot:MS e2el:MS");
}

// Options of vLLM's client that change nothing here.
void add_ignored(CLI::App& app, Raw& raw) {
  for (const char* flag :
       {"--trust-remote-code", "--skip-chat-template", "--enable-multimodal-chat", "--self-timed",
        "--plot-timeline", "--plot-dataset-stats"})
    app.add_flag(flag, raw.ignored, "accepted, without effect")->group("Without effect");
  app.add_option("--tokenizer-mode", raw.tokenizer_mode, "accepted, without effect")
      ->group("Without effect");
  app.add_option("--request-id-prefix", raw.request_id_prefix, "accepted, without effect")
      ->group("Without effect");
}

Result<void> interpret(const Raw& raw, bench::ServeSettings& s) {
  TRY(s.load.arrivals.request_rate, number_or_inf(raw.request_rate, "--request-rate"));
  TRY(s.load.arrivals.burstiness, number_or_inf(raw.burstiness, "--burstiness"));
  TRY(s.output.vllm.percentile_metrics, bench::parse_percentile_metrics(raw.percentile_metrics));
  TRY(s.output.vllm.percentiles, bench::parse_percentiles(raw.metric_percentiles));
  return {};
}

}  // namespace

std::vector<std::string> typed_arguments() {
  std::vector<std::string> words;
  std::string text;
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "rb")) {
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
      if (c != 0) {
        text += static_cast<char>(c);
        continue;
      }
      // Values of headers may be secrets.
      if (!words.empty() && words.back() == "--header" && text.find('=') != std::string::npos)
        text = text.substr(0, text.find('=') + 1) + "***";
      if (text.starts_with("--header=") && text.find('=', 9) != std::string::npos)
        text = text.substr(0, text.find('=', 9) + 1) + "***";
      words.push_back(std::move(text));
      text.clear();
    }
    std::fclose(file);
  }
  return words;
}

void add_serve_options(CLI::App& app, const std::shared_ptr<bench::ServeSettings>& settings,
                       std::vector<std::function<Result<void>()>>& interpretations) {
  auto raw = std::make_shared<Raw>();
  add_target_options(app, settings->target);
  add_data(app, settings->data);
  add_random_data(app, settings->data);
  add_dataset_data(app, settings->data);
  add_load(app, settings->load, settings->data, *raw);
  add_body(app, *settings);
  add_checks(app, settings->check);
  add_output(app, settings->output, *raw);
  add_ignored(app, *raw);
  interpretations.push_back([raw, settings] { return interpret(*raw, *settings); });
}

void add_bench_serve(CLI::App& bench_app, int& exit_code) {
  auto settings = std::make_shared<bench::ServeSettings>();
  auto interpretations = std::make_shared<std::vector<std::function<Result<void>()>>>();
  CLI::App* const app = bench_app.add_subcommand(
      "serve", "Measure a server with any dataset and load; takes the options of vLLM's client");
  add_serve_options(*app, settings, *interpretations);
  app->callback([settings, interpretations, &exit_code] {
    for (const auto& interpret_one : *interpretations) {
      if (const auto done = interpret_one(); !done) {
        exit_code = finish(tl::unexpected<Error>(done.error()));
        return;
      }
    }
    settings->argv = typed_arguments();
    auto outcome = bench::serve(*settings, stop_flag());
    if (!outcome) {
      exit_code = finish(tl::unexpected<Error>(outcome.error()));
      return;
    }
    finish(outcome->text);
    exit_code = outcome->exit_code;
  });
}

}  // namespace saccade
