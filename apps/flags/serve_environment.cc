#include "apps/flags/serve_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/text/ascii.h"

namespace saccade {
namespace {

constexpr std::array kVariables = {
    EnvironmentVariable{
        "HF_HOME", true,
        "folder whose subfolder `hub` is the Hugging Face cache (default: ~/.cache/huggingface)"},
    EnvironmentVariable{"HF_HUB_CACHE", true,
                        "the Hugging Face cache; takes precedence over HF_HOME"},
    EnvironmentVariable{"HF_TOKEN", true, "token for downloads; --hf-token takes precedence"},
    EnvironmentVariable{
        "HF_TOKEN_PATH", true,
        "file with the token that --hf-token without a value uses (default: HF_HOME/token)"},
    EnvironmentVariable{"HF_ENDPOINT", true,
                        "address of the hub (default: https://huggingface.co)"},
    EnvironmentVariable{"HTTP_PROXY", true,
                        "proxy for downloads by http, as http://USER:PASSWORD@HOST:PORT; for media "
                        "only with --media-environment-proxies"},
    EnvironmentVariable{
        "HTTPS_PROXY", true,
        "proxy for downloads by https, like HTTP_PROXY; ALL_PROXY is used where either is not set"},
    EnvironmentVariable{
        "NO_PROXY", true,
        "hosts to reach without a proxy: example.org (with its subdomains), 10.0.0.0/8, *"},
    EnvironmentVariable{"HF_HUB_OFFLINE", true, "1: download nothing"},
    EnvironmentVariable{"TRANSFORMERS_OFFLINE", true, "same as HF_HUB_OFFLINE"},
    EnvironmentVariable{"SACCADE_API_KEY", true, "same as --api-key, which takes precedence"},
    EnvironmentVariable{"VLLM_API_KEY", true, "same as --api-key, which takes precedence"},
    EnvironmentVariable{"VLLM_LOGGING_LEVEL", true, "same as --log-level, which takes precedence"},
    EnvironmentVariable{"VLLM_LOG_STATS_INTERVAL", true,
                        "same as --throughput-log-seconds, which takes precedence"},
    EnvironmentVariable{"VLLM_CPU_KVCACHE_SPACE", true,
                        "size of the KV cache in GiB; --kv-cache-bytes takes precedence"},
    EnvironmentVariable{"VLLM_CPU_OMP_THREADS_BIND", true,
                        "processors to run on, e.g. 0-3,8, with one compute thread each; 0-3|4-7: "
                        "a list per rank of --tensor-parallel-size; auto: a NUMA node per rank if "
                        "there are enough; nobind: no binding (default: auto)"},
    EnvironmentVariable{"VLLM_IMAGE_FETCH_TIMEOUT", true,
                        "same as --media-timeout, which takes precedence"},
    EnvironmentVariable{"VLLM_ALLOW_RUNTIME_LORA_UPDATING", true,
                        "1: same as --allow-runtime-lora-updating"},
    EnvironmentVariable{"VLLM_HOST_IP", false, "it is for vLLM's workers; use --host"},
    EnvironmentVariable{"VLLM_PORT", false, "it is for vLLM's workers; use --port"},
    EnvironmentVariable{"VLLM_CPU_NUM_OF_RESERVED_CPU", false, "use --threads"},
    EnvironmentVariable{"VLLM_VIDEO_FETCH_TIMEOUT", false, "use --media-timeout"},
    EnvironmentVariable{"VLLM_USE_MODELSCOPE", false,
                        "checkpoints come from a folder or a Hugging Face hub (HF_ENDPOINT)"},
    EnvironmentVariable{"VLLM_ATTENTION_BACKEND", false,
                        "kernels are chosen for the processor; on a GPU use --attention-backend"},
    EnvironmentVariable{"VLLM_USE_V1", false, "there is one engine"},
    EnvironmentVariable{"VLLM_WORKER_MULTIPROC_METHOD", false, "there is one process"},
    EnvironmentVariable{"VLLM_TARGET_DEVICE", false, "use --device"},
    EnvironmentVariable{"VLLM_ALLOW_LONG_MAX_MODEL_LEN", false,
                        "--max-model-len is limited to the checkpoint's positions"},
    EnvironmentVariable{"VLLM_CONFIGURE_LOGGING", false, "use --log-level"},
    EnvironmentVariable{"VLLM_LOGGING_CONFIG_PATH", false, "use --log-level"},
    EnvironmentVariable{"VLLM_NO_USAGE_STATS", false, "usage statistics are never sent"},
    EnvironmentVariable{"VLLM_DO_NOT_TRACK", false, "usage statistics are never sent"},
    EnvironmentVariable{"VLLM_CACHE_ROOT", false, "use --profile-folder"},
    EnvironmentVariable{"VLLM_MEDIA_URL_ALLOW_REDIRECTS", false,
                        "redirects are followed, to --allowed-media-domains only"},
    EnvironmentVariable{"VLLM_MEDIA_LOADING_THREAD_COUNT", false,
                        "use --image-threads and --worker-threads"},
    EnvironmentVariable{"VLLM_HTTP_TIMEOUT_KEEP_ALIVE", false,
                        "idle connections are closed after 300 s"},
    EnvironmentVariable{"VLLM_SERVER_DEV_MODE", false,
                        "its routes are always there, behind the API key, or not supported"},
};

Result<double> number_of(const char* name, double least, double most, double absent) {
  const std::string text = environment(name);
  if (text.empty()) return absent;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= least) ||
      !(number <= most))
    return fail(ErrorCode::kInvalid, "{} is '{}', a number of {} to {} is required", name, text,
                least, most);
  return number;
}

// Lists with | between; nothing where one of them is none.
std::optional<std::vector<ProcessorSet>> rank_lists(std::string_view text) {
  std::vector<ProcessorSet> ranks;
  while (true) {
    const std::size_t end = std::min(text.find('|'), text.size());
    auto processors = parse_processors(text.substr(0, end));
    if (!processors) return std::nullopt;
    ranks.push_back(*std::move(processors));
    if (end == text.size()) return ranks;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool environment_switch(const char* name) {
  const std::string text = ascii::lower(environment(name));
  return text == "1" || text == "true" || text == "yes" || text == "on";
}

Result<EnvironmentDefaults> read_environment() {
  constexpr double kDay = 86'400;
  EnvironmentDefaults defaults;
  for (const char* name : {"SACCADE_API_KEY", "VLLM_API_KEY"}) {
    const std::string key = environment(name);
    if (!key.empty() && defaults.api_keys.empty()) defaults.api_keys.push_back(key);
  }
  defaults.log_level = environment("VLLM_LOGGING_LEVEL");
  TRY(defaults.log_interval, number_of("VLLM_LOG_STATS_INTERVAL", 0, kDay, -1));
  TRY(defaults.media_seconds, number_of("VLLM_IMAGE_FETCH_TIMEOUT", 1, kDay, -1));
  TRY(const double gib, number_of("VLLM_CPU_KVCACHE_SPACE", 0, 1 << 20, 0));
  defaults.kv_cache_bytes = static_cast<std::size_t>(gib * 0x1p30);
  for (const EnvironmentVariable& variable : kVariables) {
    if (!variable.works && !environment(std::string(variable.name).c_str()).empty())
      defaults.notices.push_back(
          fmt::format("{} has no effect here: {}", variable.name, variable.sentence));
  }
  return defaults;
}

Result<BoundProcessors> bind_processors(int ranks) {
  constexpr const char* kName = "VLLM_CPU_OMP_THREADS_BIND";
  const std::string text = environment(kName);
  BoundProcessors bound;
  if (text == "all" || text == "nobind") return bound;
  if (text.empty() || text == "auto") {
    const Processors processors = find_processors();
    if (ranks > 1 && static_cast<std::size_t>(ranks) <= processors.nodes.size())
      bound.ranks.assign(processors.nodes.begin(), processors.nodes.begin() + ranks);
    return bound;
  }
  auto lists = rank_lists(text);
  if (!lists)
    return fail(ErrorCode::kInvalid,
                "{} is '{}': a list such as 0-3,8 is required, one a rank with | between, or auto "
                "or nobind",
                kName, text);
  if (lists->size() > 1 && lists->size() != static_cast<std::size_t>(ranks))
    return fail(ErrorCode::kInvalid, "{} is '{}': {} lists for {} ranks (--tensor-parallel-size)",
                kName, text, lists->size(), ranks);
  ProcessorSet all;
  for (const ProcessorSet& list : *lists) all.insert(all.end(), list.begin(), list.end());
  if (Result<void> went = stay_on(all); !went) return fail_within(kName, std::move(went).error());
  const Processors left = find_processors();
  for (const ProcessorSet& list : *lists) {
    if (!std::ranges::includes(left.usable, list))
      return fail(ErrorCode::kInvalid, "{} is '{}': of {} this process may use {} alone", kName,
                  text, format_processors(list), format_processors(left.usable));
  }
  bound.threads = left.compute_threads();
  if (lists->size() > 1) bound.ranks = *std::move(lists);
  return bound;
}

}  // namespace saccade
