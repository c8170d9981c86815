// The two test kits: text and vision profiles with their side files.
#include <algorithm>
#include <filesystem>

#include "bench/datasets/text_file.h"
#include "bench/load/leg_runner.h"
#include "bench/methods/seed_methods.h"
#include "bench/metrics/metrics.h"
#include "bench/serve_command.h"

namespace saccade::bench {
namespace {

constexpr std::int32_t kHighOutput = 2048;

struct Profile {
  std::string_view name;
  std::int32_t input_len;  // -1: what the model's length leaves
  std::int32_t output_len;
  std::vector<std::int32_t> prompts;
};

std::vector<Profile> profiles_of(bool vision) {
  if (vision) return {{"1", 50, 300, {8, 16, 32, 64, 128}}, {"2", 100, 100, {1, 8, 16, 32}}};
  return {{"high", -1, kHighOutput, {1, 5, 10}},
          {"mid", 200, 250, {32, 64, 128}},
          {"low", 100, 150, {1, 4, 8, 16, 32}}};
}

bool wanted(const KitSettings& settings, std::string_view profile) {
  return settings.profiles.empty() || std::find(settings.profiles.begin(), settings.profiles.end(),
                                                profile) != settings.profiles.end();
}

std::string memory_block(std::string_view title, int pid) {
  std::string out = fmt::format("{}\n", title);
  const std::string gpu = gpu_description();
  out += gpu.empty() ? "no NVIDIA GPU\n" : gpu;
  if (pid >= 0)
    for (const auto& [name, bytes] : process_memory(pid))
      out += fmt::format("server {}: {:.0f} MiB\n", name, bytes / (1 << 20));
  return out + "\n";
}

// The server's command line when it runs here, else what it says of itself.
std::string engine_params(const Session& session, int pid) {
  std::string line;
  if (pid >= 0) line = read_text_file(fmt::format("/proc/{}/cmdline", pid)).value_or("");
  std::replace(line.begin(), line.end(), '\0', ' ');
  std::string out = line.empty() ? "" : line + "\n";
  out += fmt::format("base_url={}\n", session.target.base_url);
  for (const ServedModel& model : session.server.models)
    out += fmt::format("model={} root={} max_model_len={}\n", model.id, model.root,
                       model.max_model_len);
  for (const auto& [key, value] : session.server.parameters)
    out += fmt::format("{}={}\n", key, value);
  return out;
}

ServeSettings settings_of(const KitSettings& settings, const KitLoad& load) {
  ServeSettings s = settings.serve;
  s.check.server_cmd.clear();  // one server for all loads, started before
  s.target.backend = settings.vision ? "openai-chat" : "openai";
  s.data.name = settings.vision ? "random-mm" : "random";
  s.data.num_prompts = static_cast<std::size_t>(load.prompts);
  s.data.random.text.input_len = load.input_len;
  s.data.random.text.output_len = load.output_len;
  s.data.random.text.one_token_repeated = true;
  s.data.random.text.special_tokens_count = !settings.vision;
  s.data.random.images = 1;
  s.data.random.buckets = {{settings.width, settings.height, 1}};
  s.data.range_ratio = 1.0;
  if (s.output.compat == "auto") s.output.compat = "vllm-2024";
  s.output.brief = true;
  s.output.vllm.save_detailed = true;
  return s;
}

// One request of the first profile, its result thrown away.
Result<void> warm_up_kit(const KitSettings& settings, KitLoad load, std::atomic<bool>& stop) {
  load.prompts = 1;
  load.output_len = 1;
  return run_once(settings_of(settings, load), stop).map([](const RunLog&) {});
}

}  // namespace

Result<std::vector<KitLoad>> kit_loads(const KitSettings& settings, std::int64_t max_model_len) {
  const auto profiles = profiles_of(settings.vision);
  for (const std::string& name : settings.profiles)
    if (std::none_of(profiles.begin(), profiles.end(),
                     [&](const Profile& profile) { return profile.name == name; }))
      return fail(ErrorCode::kInvalid, "profile '{}' is not one of this kit's", name);
  std::vector<KitLoad> loads;
  for (const Profile& profile : profiles) {
    if (!wanted(settings, profile.name)) continue;
    std::int64_t input = profile.input_len;
    if (input < 0) {
      input = max_model_len - kHighOutput;
      if (input < 1)
        return fail(ErrorCode::kInvalid,
                    "the high profile needs max_model_len above {}, the server says {} (choose "
                    "others with --profile)",
                    kHighOutput, max_model_len);
    }
    for (const std::int32_t prompts : profile.prompts)
      loads.push_back({std::string(profile.name), static_cast<std::int32_t>(input),
                       profile.output_len, prompts});
  }
  return loads;
}

std::string kit_file_name(const std::string& model, const KitLoad& load) {
  return fmt::format("{}_{}-{}_{}.json", model.substr(model.rfind('/') + 1), load.input_len,
                     load.output_len, load.prompts);
}

Result<MethodOutcome> kit_run(const KitSettings& asked, std::atomic<bool>& stop) {
  KitSettings settings = asked;
  settings.serve.target.count_by_server = true;  // lengths are exact, with a tokenizer or without
  TRY(const Session session, open_session(settings.serve));
  std::int64_t max_model_len = -1;
  for (const ServedModel& model : session.server.models)
    if (model.id == session.model) max_model_len = model.max_model_len;
  TRY(const auto loads, kit_loads(settings, max_model_len));
  TRY(const net::Url url, session.target.root_url("/"));
  const int pid = listening_process(url.host, url.port).value_or(-1);
  const std::filesystem::path folder = settings.output;
  TRY_DO(write_text_file((folder / "engine_params.txt").string(), engine_params(session, pid)));
  TRY_DO(warm_up_kit(settings, loads.front(), stop));
  std::string memory = memory_block("GPU Name", -1) + memory_block("Warm up status", pid);

  MethodOutcome outcome;
  for (const KitLoad& load : loads) {
    if (stop.load()) break;
    const ServeSettings s = settings_of(settings, load);
    TRY_DO(check(s));
    const auto ran = run_once(s, stop);
    if (!ran) {  // what was measured before stays
      note(ran.error().message);
      outcome.exit_code = 1;
      break;
    }
    const RunLog& log = *ran;
    const ReportSettings report = report_settings(s);
    TRY(const MetricOptions options, metric_options(report.compat, report.goodput));
    const RunMetrics metrics = compute_metrics(log, options);
    const std::string path = (folder / kit_file_name(session.model, load)).string();
    TRY_DO(write_text_file(path, vllm_json(log, metrics, report.vllm)));
    TRY_DO(write_run_log(log, path + ".run.jsonl"));
    outcome.text += fmt::format("{}: {} in, {} out, {} requests\n", load.profile, load.input_len,
                                load.output_len, load.prompts);
    outcome.text += vllm_block(log, metrics, report.vllm);
    outcome.exit_code |= exit_code_of(log);
  }
  memory += memory_block("After Benchmark status", pid);
  TRY_DO(write_text_file((folder / "mem_usage.txt").string(), memory));
  if (stop.load()) outcome.exit_code = 1;
  return outcome;
}

}  // namespace saccade::bench
