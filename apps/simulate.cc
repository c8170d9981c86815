// saccade simulate: flags to settings, settings to a cluster on a virtual clock.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "apps/cluster_commands.h"
#include "apps/flags/choice_flag.h"
#include "apps/flags/duration_flag.h"
#include "apps/flags/size_flag.h"
#include "base/log.h"
#include "bench/metrics/metrics.h"
#include "memory/prefix/cache_shape.h"
#include "simulate/calibration.h"

namespace saccade {
namespace {

// Expected answers' tokens up to which every one has its own event.
constexpr double kEveryTokenUpTo = 5e6;

constexpr std::array<Named<DType>, 3> kCacheDtypes{
    {{"bfloat16", DType::kBf16}, {"int8", DType::kI8}, {"fp8", DType::kE4m3}}};

struct SimulateFlags {
  std::string what;
  std::string cluster = "1PD";
  std::string costs;
  std::string shape;
  std::string calibrate;
  std::string held_out;
  std::string costs_output;
  std::string output;
  std::string image_size = "vanilla";
  std::string ttft_target = "2s";
  std::string duration;
  std::optional<simulate::LoggedTokens> log_tokens;  // nothing: by their number
  std::string sample_every;
  DType kv_cache_dtype = DType::kBf16;
  double slower = 1;
  double network_ms = 0.1;
  double network_gbit = 10;
  simulate::WorkloadSettings traffic;
  simulate::SimulationSettings run;
};

constexpr std::array<Named<std::optional<simulate::LoggedTokens>>, 3> kLogTokens{
    {{"auto", std::nullopt},
     {"every", simulate::LoggedTokens::kEvery},
     {"ends", simulate::LoggedTokens::kEnds}}};

Result<simulate::ServedModel> load_model(const SimulateFlags& f) {
  if (std::filesystem::is_directory(f.what)) {
    if (!f.shape.empty())
      return fail(ErrorCode::kInvalid, "--shape {}: {} says itself what its layers keep", f.shape,
                  f.what);
    return simulate::model_of_checkpoint(f.what, f.kv_cache_dtype);
  }
  if (f.kv_cache_dtype != DType::kBf16)
    return fail(
        ErrorCode::kInvalid,
        "--kv-cache-dtype {}: {} is no checkpoint's folder, and --shape says what its layers keep",
        name_in(kCacheDtypes, f.kv_cache_dtype), f.what);
  std::vector<LayerSpec> layers;
  if (!f.shape.empty()) {
    TRY(CacheShape shape, read_cache_shape(f.shape));
    layers = std::move(shape.layers);
  }
  return simulate::model_of_costs(f.what, std::move(layers));
}

Result<void> interpret_flags(SimulateFlags& f) {
  simulate::SimulationSettings& run = f.run;
  TRY(run.cluster, simulate::parse_cluster_spec(f.cluster));
  TRY_DO(serve::choose_image_size(f.image_size, run.image_size));
  if (run.image_size.mode == serve::ImageSizeMode::kSeedAsPublished)
    return fail(ErrorCode::kUnsupported,
                "--image-size seed-as-published is not simulated: images that are encoded twice "
                "are not; seed is the rule as it was meant");
  TRY(run.image_size.ttft_target, parse_duration("--ttft-target", f.ttft_target));
  if (!run.pd_tower && run.cluster.encoders == 0)
    return fail(ErrorCode::kInvalid, "--encoder-fallback refuse: --cluster {} has no encoders",
                f.cluster);
  if (!run.pd_tower && run.image_size.mode == serve::ImageSizeMode::kDynamic)
    return fail(ErrorCode::kInvalid,
                "--image-size dynamic with --encoder-fallback refuse: a server measures by its own "
                "tower, and would have none");
  run.network.delay = static_cast<Nanos>(f.network_ms * 1e6);
  run.network.bytes_per_second = f.network_gbit * 1e9 / 8;
  if (!f.duration.empty()) {
    TRY(f.traffic.duration, parse_duration("--duration", f.duration));
  }
  if (!f.sample_every.empty()) {
    TRY(run.sample_every, parse_duration("--sample-every", f.sample_every));
  }
  f.traffic.seed = run.seed;
  return {};
}

Result<simulate::CostModel> costs_of(const SimulateFlags& f) {
  const std::string& path = !f.costs.empty() ? f.costs : f.what;
  if (std::filesystem::is_directory(path))
    return fail(ErrorCode::kInvalid,
                "what {} takes on a machine is not known: --costs FILE, of `saccade profile {} "
                "--output FILE` or of --calibrate RUN --costs-output FILE",
                f.what, f.what);
  return simulate::read_costs(path);
}

simulate::LoggedTokens logged(const SimulateFlags& f, const simulate::Workload& workload) {
  if (f.log_tokens) return *f.log_tokens;
  double tokens = 0;
  for (const simulate::SimRequest& request : workload.requests)
    tokens += static_cast<double>(request.output_tokens);
  if (tokens <= kEveryTokenUpTo) return simulate::LoggedTokens::kEvery;
  fmt::print(stderr,
             "{:.0f} tokens: the log has the first and the last of each answer, so gaps between "
             "tokens are not known (--log-tokens every has them)\n",
             tokens);
  return simulate::LoggedTokens::kEnds;
}

std::string shares(const std::vector<double>& busy) {
  std::string text;
  for (const double share : busy) text += fmt::format(" {:.0f}", 100 * share);
  return text;
}

void print_result(const simulate::SimulationResult& result, const SimulateFlags& f, double wall) {
  const bench::RunMetrics metrics = bench::compute_metrics(result.log);
  fmt::print("{}: {} requests in {:.1f} virtual seconds, {} answered, {} refused\n",
             f.run.cluster.text(), result.log.requests.size(), seconds(result.ended),
             metrics.completed, metrics.failed);
  for (const auto& [status, count] : result.refused)
    fmt::print("  {} with status {}\n", count, status);
  const auto line = [](const char* name, const bench::Distribution& of) {
    if (of.empty()) return;
    fmt::print("{:<5} P50 {:.4f}  P90 {:.4f}  P95 {:.4f}  P99 {:.4f}  max {:.4f} s\n", name,
               of.percentile(50), of.percentile(90), of.percentile(95), of.percentile(99),
               of.max());
  };
  line("TTFT", metrics.ttft);
  line("TPOT", metrics.tpot);
  line("E2E", metrics.e2el);
  const double target = seconds(f.run.image_size.ttft_target);
  std::size_t in_time = 0;
  for (const double ttft : metrics.ttft.sorted()) in_time += ttft <= target ? 1 : 0;
  fmt::print(
      "within {:.2f} s: {:.2f} % of all requests\n", target,
      100.0 * static_cast<double>(in_time) / static_cast<double>(result.log.requests.size()));
  if (result.native_image_tokens > 0)
    fmt::print("image tokens kept: {:.1f} % of {}\n",
               100.0 * static_cast<double>(result.applied_image_tokens) /
                   static_cast<double>(result.native_image_tokens),
               result.native_image_tokens);
  fmt::print("busy, per cent: PD{}{}{}\n", shares(result.pd_busy),
             result.encoder_busy.empty() ? "" : ", encoders", shares(result.encoder_busy));
  if (f.run.cluster.encoders > 0) {
    fmt::print("images:");
    for (std::size_t i = 0; i < cluster::kSources; ++i)
      fmt::print(" {} {}", result.items.items[i],
                 cluster::name_of(static_cast<cluster::Source>(i)));
    fmt::print(", {} failed\n", result.items.failed);
  }
  fmt::print("{} steps, {} preemptions, {} retries by the proxy\n", result.steps,
             result.preemptions, result.retries);
  fmt::print(stderr, "simulated in {:.2f} s\n", wall);
}

Result<void> write_costs(const std::string& path, const simulate::CostModel& costs) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << simulate::to_json(costs) << "\n";
  file.close();
  if (!file) return fail(ErrorCode::kUnavailable, "--costs-output {}: cannot be written", path);
  return {};
}

Result<void> run_calibration(const SimulateFlags& f, const simulate::ServedModel& model) {
  TRY(const bench::RunLog run, bench::read_run_log(f.calibrate));
  auto made = simulate::calibrate(f.run, model, run, f.calibrate);
  if (!made) return tl::unexpected<Error>(std::move(made).error());
  simulate::Calibration calibration = *std::move(made);
  fmt::print("{}", simulate::describe(calibration.costs));
  fmt::print("{}", simulate::describe(calibration.fitted, f.calibrate + " (fitted to it)"));
  if (!f.held_out.empty()) {
    TRY(const bench::RunLog other, bench::read_run_log(f.held_out));
    TRY(const simulate::Workload workload, simulate::workload_of(other, f.held_out));
    simulate::SimulationSettings settings = f.run;
    settings.costs = settings.believed = calibration.costs;
    settings.tokens = simulate::LoggedTokens::kEnds;
    TRY(const simulate::SimulationResult replayed, simulate::simulate(settings, model, workload));
    calibration.held_out = simulate::replay_error(other, workload, replayed.log);
    fmt::print("{}", simulate::describe(*calibration.held_out, f.held_out + " (held out)"));
  }
  if (calibration.calibrated()) {
    fmt::print("calibrated: TTFT at P50 and P90 within {:.0f} % of {}\n",
               100 * simulate::kCalibrated,
               f.held_out.empty() ? "the run that it was fitted to (--held-out RUN says more)"
                                  : "a run that it had not seen");
  } else {
    fmt::print("NOT calibrated: TTFT at P50 or P90 is over {:.0f} % off\n",
               100 * simulate::kCalibrated);
  }
  if (f.costs_output.empty()) return {};
  return write_costs(f.costs_output, calibration.costs);
}

Result<void> run_simulation(SimulateFlags& f) {
  log::set_level(log::Level::kError);  // of single machines' troubles
  TRY_DO(interpret_flags(f));
  TRY(const simulate::ServedModel model, load_model(f));
  if (!f.calibrate.empty()) return run_calibration(f, model);
  if (!f.held_out.empty() || !f.costs_output.empty())
    return fail(ErrorCode::kInvalid, "--held-out and --costs-output go with --calibrate RUN");
  TRY(f.run.believed, costs_of(f));
  f.run.costs = simulate::slowed(f.run.believed, f.slower);
  TRY(const simulate::Workload workload, simulate::make_workload(f.traffic));
  f.run.tokens = logged(f, workload);
  const auto begin = std::chrono::steady_clock::now();
  TRY(simulate::SimulationResult result, simulate::simulate(f.run, model, workload));
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  print_result(result, f, wall.count());
  if (f.output.empty()) return {};
  result.log.header.argv = {"saccade", "simulate", f.what, "--cluster", f.cluster};
  result.log.header.tool_version = SACCADE_VERSION;
  result.log.header.server_parameters = {{"image_size", f.image_size},
                                         {"ttft_target", f.ttft_target}};
  return bench::write_run_log(result.log, f.output);
}

void add_traffic(CLI::App& cmd, SimulateFlags& f) {
  auto& t = f.traffic;
  cmd.add_option("--trace", t.trace,
                 "arrival trace: gap file, Azure or BurstGPT CSV, Mooncake JSONL");
  cmd.add_option("--request-rate", t.request_rate,
                 "requests per second (Poisson arrivals), without --trace");
  cmd.add_option("--duration", f.duration,
                 "length of the traffic, e.g. 24h; later arrivals are left out");
  cmd.add_flag("--repeat", t.repeat, "repeat the trace until --duration is reached");
  cmd.add_option("--speed", t.speed, "speed of the trace; 2: gaps half as long")
      ->capture_default_str();
  cmd.add_option("--num-prompts", t.num_prompts, "most requests; 0: no limit")
      ->check(CLI::Range(std::int64_t{0}, simulate::kMaxRequests));
  cmd.add_option("--input-tokens", t.input_tokens,
                 "text tokens of a request, where the trace does not say")
      ->capture_default_str();
  cmd.add_option("--output-tokens", t.output_tokens,
                 "output tokens of a request, where the trace does not say")
      ->capture_default_str();
  cmd.add_option("--images", t.images, "images of a request, where the trace does not say")
      ->capture_default_str();
  cmd.add_option("--image-share", t.image_share, "share of requests that have images, 0 to 1")
      ->capture_default_str();
  cmd.add_option("--image-tokens", t.image_tokens,
                 "median tokens of an image, at 28x28 pixels per token")
      ->capture_default_str();
  cmd.add_option("--image-sigma", t.image_sigma,
                 "standard deviation of the logarithm of image sizes; 0: all equal")
      ->capture_default_str();
  cmd.add_option("--image-pool", t.pool,
                 "number of different images, drawn by Zipf's law; 0: each is new");
}

void add_engine(CLI::App& cmd, EngineSettings& e) {
  cmd.add_option("--max-num-batched-tokens", e.max_batched_tokens, "most tokens of one step")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  cmd.add_option("--max-num-seqs", e.max_sequences, "most requests that run at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16));
  cmd.add_option("--max-model-len", e.max_model_len,
                 "most tokens of a prompt and its answer; 0: what the KV cache allows")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32));
  cmd.add_option("--kv-cache-bytes", e.kv_cache_bytes, "size of each PD's KV cache, e.g. 8GiB")
      ->default_str(bytes_text(e.kv_cache_bytes))
      ->transform(as_bytes())
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 42));
  cmd.add_option("--encoder-cache-bytes", e.encoder_cache_bytes,
                 "memory for cached image embeddings, e.g. 1GiB")
      ->default_str(bytes_text(e.encoder_cache_bytes))
      ->transform(as_bytes())
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40));
  add_choice(cmd, "--encoder-cache", e.encoder_cache, kEncoderCaches,
             "image embeddings: store, overlay or off, as in saccade serve")
      ->capture_default_str();
  add_choice(
      cmd, "--kv-policy", e.kv_policy, kKvPolicies,
      "how layers of different kinds share the KV cache: jenga, or a baseline to compare with")
      ->capture_default_str();
  cmd.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", e.prefix_caching,
               "reuse the KV cache of prompts that begin alike");
  cmd.add_option("--tpot-target-ms", e.tpot_target_ms,
                 "target time per output token in ms; 0: no target")
      ->check(CLI::Range(0.0, 1e6));
  e.decode_share = EngineSettings::kServingDecodeShare;
  cmd.add_option(
         "--decode-share", e.decode_share,
         "least share of a step's time for decoding while prompts are prefilled; 0: prefill first")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.99));
  cmd.add_option("--max-waiting", e.max_waiting,
                 "most queued requests of one client; beyond it they get 429")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SimulateFlags>();
  SimulateFlags& f = *flags;
  f.run.engine.kv_cache_bytes = std::size_t{8} << 30;
  CLI::App* cmd = app.add_subcommand(
      "simulate", "a whole cluster on a virtual clock, with the server's own decisions");
  cmd->add_option("model", f.what,
                  "checkpoint folder (its weights may be missing), or a file of costs or a profile")
      ->required();
  cmd->add_option("--cluster", f.cluster,
                  "machines to simulate, e.g. 2E1PD: two encoders and one PD")
      ->capture_default_str();
  cmd->add_option("--costs", f.costs,
                  "file of measured costs, from --costs-output or saccade profile --output");
  cmd->add_option(
      "--shape", f.shape,
      "file with what the layers keep (as in data/shapes), for a model given as costs only");
  add_choice(*cmd, "--kv-cache-dtype", f.kv_cache_dtype, kCacheDtypes,
             "type of a checkpoint's KV cache; --costs must be of the same")
      ->capture_default_str();
  add_traffic(*cmd, f);
  cmd->add_option("--image-size", f.image_size, "vanilla, static:N, seed or dynamic")
      ->capture_default_str();
  cmd->add_option("--ttft-target", f.ttft_target,
                  "time to first token that --image-size seed and dynamic aim at")
      ->capture_default_str();
  cmd->add_option("--image-floor", f.run.image_size.floor,
                  "fewest tokens that --image-size dynamic leaves an image")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  add_choice(*cmd, "--over-target", f.run.image_size.refuse_late, kOverTargets,
             "with --image-size dynamic, requests that are late even at the least sizes: accept, "
             "or refuse with 503")
      ->capture_default_str();
  add_choice(*cmd, "--encoder-fallback", f.run.pd_tower, kEncoderFallbacks,
             "local: PDs encode images too; refuse: only encoders do")
      ->capture_default_str();
  add_engine(*cmd, f.run.engine);
  cmd->add_option("--slower", f.slower, "factor on the costs: 2 is a machine half as fast")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 100.0));
  cmd->add_option("--network-ms", f.network_ms, "one-way delay between machines in ms")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e4));
  cmd->add_option("--network-gbit", f.network_gbit,
                  "bandwidth of a machine in Gbit/s, each direction")
      ->capture_default_str()
      ->check(CLI::Range(1e-3, 1e4));
  cmd->add_option("--seed", f.run.seed, "random seed; equal seeds give equal output");
  cmd->add_option("-o,--output", f.output, "run log to write, for saccade bench report");
  add_choice(*cmd, "--log-tokens", f.log_tokens, kLogTokens,
             "tokens in the run log: every, ends (first and last of each answer), or auto (by "
             "their number)")
      ->capture_default_str();
  cmd->add_option("--sample-every", f.sample_every,
                  "time between samples of the first PD's level and waits in the run log");
  cmd->add_option("--calibrate", f.calibrate, "run log to fit the costs to and to replay");
  cmd->add_option("--held-out", f.held_out,
                  "with --calibrate, another run log to measure the error with");
  cmd->add_option("--costs-output", f.costs_output,
                  "with --calibrate, file to write the fitted costs to");
  cmd->callback([flags, &exit_code] { exit_code = logged(run_simulation(*flags)); });
}

}  // namespace saccade
