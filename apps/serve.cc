// saccade serve: flags to settings, settings to a running server.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/config_file.h"
#include "apps/duration_flag.h"
#include "base/json.h"
#include "base/log.h"
#include "serve/server.h"
#include "serve/settings.h"
#include "tools/formats.h"

namespace saccade {
namespace {

struct Flags {
  serve::ServeSettings settings;
  std::string positional_model;
  std::vector<std::string> limit_mm;
  std::string mm_processor_kwargs;
  std::string generation_config = "auto";
  std::string config;
  std::string image_size = "vanilla";
  std::string ttft_target = "2s";
  std::string over_target = "accept";
  bool no_prefix_caching = false;
  std::string log_level = "info";
  std::size_t body_mib = 64;
  int drain_seconds = 30;
  int media_seconds = 30;
  int throughput_seconds = 10;
};

void add_server_flags(CLI::App& cmd, Flags& f) {
  auto& s = f.settings;
  cmd.add_option("model_positional", f.positional_model,
                 "checkpoint: a folder, or ORG/NAME in HF_HOME");
  cmd.add_option("--model", s.model, "checkpoint: a folder, or ORG/NAME in HF_HOME");
  cmd.add_option("--served-model-name", s.served_model_name, "names that requests may use")
      ->expected(1, -1);
  cmd.add_option("--host", s.host, "address to listen on")->capture_default_str();
  cmd.add_option("--port", s.port, "port; 0 takes a free one")->capture_default_str();
  cmd.add_option("--api-key", s.api_keys,
                 "key that clients must send (also SACCADE_API_KEY, VLLM_API_KEY)")
      ->expected(1, -1);
  cmd.add_option("--allowed-origins", s.allowed_origins,
                 "web pages that may use the server, besides its own and this machine's; *: all")
      ->expected(1, -1);
  cmd.add_option("--max-body-mib", f.body_mib, "largest request body")
      ->capture_default_str()
      ->check(CLI::Range(1, 65'536));
  cmd.add_option("--max-preparing-bytes", s.max_preparing_bytes,
                 "most bytes of bodies and media that all requests hold; over it 503; accepts 1GiB")
      ->transform(CLI::AsSizeValue(false));
  cmd.add_option("--io-threads", s.io_threads)->capture_default_str()->check(CLI::Range(1, 64));
  cmd.add_option("--worker-threads", s.worker_threads,
                 "threads that parse and tokenise; of several, one for short texts alone")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  cmd.add_option("--ssl-certfile", s.tls_certificate);
  cmd.add_option("--ssl-keyfile", s.tls_key);
  cmd.add_option("--drain-seconds", f.drain_seconds, "time for running answers after SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
  cmd.add_option("--log-level", f.log_level)
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  cmd.add_flag("--enable-log-requests,!--disable-log-requests", s.log_requests,
               "one line a request");
  cmd.add_option("--throughput-log-seconds", f.throughput_seconds,
                 "between lines about tokens a second under load; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 86'400));
  cmd.add_flag_callback("--disable-log-stats", [&f] { f.throughput_seconds = 0; }, "no such lines");
}

void add_model_flags(CLI::App& cmd, Flags& f) {
  auto& s = f.settings;
  cmd.add_option("--dtype", s.dtype, "auto, float32, bfloat16 or float16")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "float32", "float", "bfloat16", "float16", "half"}));
  cmd.add_option("--device", s.device)
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  cmd.add_option("--threads", s.threads, "compute threads; 0: one a core")
      ->check(CLI::Range(0, 1024));
  cmd.add_option("--chat-template", s.chat_template, "file, or the template itself");
  cmd.add_flag("--trust-request-chat-template", s.trust_request_chat_template);
  cmd.add_option("--tool-call-parser", s.tool_call_parser,
                 "form in which the model calls tools; auto: the chat template's (docs/tools.md)")
      ->capture_default_str();
  cmd.add_option("--reasoning-parser", s.reasoning_parser,
                 "form of thoughts, which become reasoning_content; auto: the chat template's; "
                 "none is content");
  cmd.add_option("--generation-config", f.generation_config,
                 "auto: the checkpoint's sampling defaults; vllm: none; or a folder that has "
                 "generation_config.json")
      ->capture_default_str();
  cmd.add_option("--limit-mm-per-prompt", f.limit_mm,
                 "most media in a request: image=10 video=2, or JSON")
      ->expected(1, -1);
  cmd.add_option("--max-video-frames", s.max_video_frames, "most frames of one video")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  cmd.add_option("--max-request-media-bytes", s.max_request_media_bytes,
                 "most bytes of a request's images and frames, as fetched; accepts 256MiB")
      ->transform(CLI::AsSizeValue(false));
  cmd.add_option("--max-pixel-bytes", s.engine.max_pixel_bytes,
                 "most bytes of pixels between decoding and encoding, all requests together; "
                 "accepts 256MiB")
      ->transform(CLI::AsSizeValue(false));
  cmd.add_option("--image-threads", s.engine.pixel_threads, "threads that decode and resize images")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  cmd.add_option("--mm-processor-kwargs", f.mm_processor_kwargs, "JSON; min_pixels and max_pixels");
  cmd.add_option("--allowed-local-media-path", s.media.allowed_local_path,
                 "folder that file:// may read");
  cmd.add_option("--allowed-media-domains", s.media.allowed_domains,
                 "hosts that http(s) images may come from")
      ->expected(1, -1);
  cmd.add_flag("--allow-private-media-addresses", s.media.allow_private_addresses,
               "let those hosts be loopback, private or link-local addresses");
  cmd.add_option("--media-timeout", f.media_seconds, "seconds to fetch all images of a request")
      ->capture_default_str()
      ->check(CLI::Range(1, 86'400));
  cmd.add_option("--max-image-pixels", s.max_image_pixels, "most pixels of one image as sent")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{178'956'970}));
}

void add_image_size_flags(CLI::App& cmd, Flags& f) {
  auto& s = f.settings.image_size;
  cmd.add_option("--image-size", f.image_size,
                 "how large images become: vanilla, static:N, seed, seed-as-published or dynamic")
      ->capture_default_str();
  cmd.add_option("--ttft-target", f.ttft_target,
                 "time to first token that seed and dynamic aim at: 2s, 500ms")
      ->capture_default_str();
  cmd.add_option("--image-floor", s.floor, "tokens that dynamic leaves an image at the least")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  cmd.add_option("--over-target", f.over_target,
                 "dynamic: requests that even the least sizes make too late are taken, or refused "
                 "with 503")
      ->capture_default_str()
      ->check(CLI::IsMember({"accept", "refuse"}));
  cmd.add_option("--profile-folder", s.profile_folder,
                 "where the measured costs of encoding and prefill are kept");
}

void add_engine_flags(CLI::App& cmd, Flags& f) {
  auto& e = f.settings.engine;
  cmd.add_option("--max-model-len", e.max_model_len,
                 "longest prompt plus answer, tokens; 0: the checkpoint's")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32));
  cmd.add_option("--max-num-batched-tokens", e.max_batched_tokens, "token budget of a step")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  cmd.add_option("--max-num-seqs", e.max_sequences, "sequences running at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  cmd.add_option("--max-waiting", e.max_waiting, "requests of a client that may queue; over it 429")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  cmd.add_option("--block-size", e.block_size, "tokens of a KV block")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  cmd.add_option("--kv-cache-bytes", e.kv_cache_bytes,
                 "bytes of the KV cache; accepts 4GiB; 0: a share of free memory")
      ->transform(CLI::AsSizeValue(false));
  cmd.add_flag("--enable-prefix-caching", e.prefix_caching, "on by default");
  cmd.add_flag("--no-enable-prefix-caching", f.no_prefix_caching);
  cmd.add_option("--kv-policy", e.kv_policy)
      ->capture_default_str()
      ->check(CLI::IsMember({"jenga", "maxpage", "static", "paged"}));
  cmd.add_option("--encoder-cache", e.encoder_cache)
      ->capture_default_str()
      ->check(CLI::IsMember({"off", "store", "overlay"}));
  cmd.add_option("--encoder-cache-bytes", e.encoder_cache_bytes)
      ->transform(CLI::AsSizeValue(false));
  cmd.add_option("--long-prefill-token-threshold", e.long_prefill_threshold)
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30));
  cmd.add_option("--scheduling-policy", e.scheduling_policy)
      ->capture_default_str()
      ->check(CLI::IsMember({"fcfs", "priority"}));
  cmd.add_option(
         "--fairness", e.fairness,
         "client: API keys, else addresses, share the server; none: first come, first served")
      ->capture_default_str()
      ->check(CLI::IsMember({"client", "none"}));
  cmd.add_option("--tpot-target-ms", e.tpot_target_ms,
                 "chunk prefills so that decode steps stay under this; 0: fixed")
      ->check(CLI::Range(0.0, 1e9));
  cmd.add_option("--max-logprobs", e.max_logprobs)
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  cmd.add_flag(
         "--async-scheduling,!--no-async-scheduling",
         [&e](std::int64_t on) { e.steps_in_flight = on > 0 ? 2 : 1; },
         "plan the next step while one runs; off by default")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  cmd.add_option("--seed", e.seed)->capture_default_str();
}

void add_cluster_flags(CLI::App& cmd, Flags& f) {
  auto& c = f.settings.cluster;
  cmd.add_option("--role", c.role,
                 "all: everything here; encoder: encodes images for others and answers nothing; "
                 "pd: has --encoders encode")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", "encoder", "pd"}));
  cmd.add_option("--cluster-listen", c.listen,
                 "HOST:PORT or unix:PATH where others ask for encodes; beyond this machine with a "
                 "key or TLS only")
      ->expected(1, -1)
      ->delimiter(',');
  cmd.add_option("--encoders", c.encoders, "HOST:PORT or unix:PATH of encoders, comma between")
      ->expected(1, -1)
      ->delimiter(',');
  cmd.add_option_function<std::string>(
         "--encoder-fallback", [&c](const std::string& given) { c.fallback = given == "local"; },
         "local: encodes here what encoders cannot; refuse: 503, and the tower is not loaded")
      ->check(CLI::IsMember({"local", "refuse"}));
  cmd.add_option_function<std::string>(
         "--numerics", [&c](const std::string& given) { c.any_numerics = given == "any"; },
         "strict: only encoders whose rows are equal to the bit; any: others too")
      ->check(CLI::IsMember({"strict", "any"}));
  cmd.add_option("--verify-embeddings", c.verify_share,
                 "share of images from encoders that are encoded here too and compared")
      ->check(CLI::Range(0.0, 1.0));
  cmd.add_option("--cluster-key-file", c.key_file, "file with a key that all of a cluster share");
  cmd.add_option("--cluster-tls-cert", c.tls_certificate, "PEM; with the two below");
  cmd.add_option("--cluster-tls-key", c.tls_key);
  cmd.add_option("--cluster-tls-ca", c.tls_authority, "PEM; whose certificates are believed");
}

// Flags of other servers that have no meaning here: accepted, so that command lines carry over, and
// said so once.
struct Ignored {
  std::vector<std::string> seen;
};

void add_ignored_flags(CLI::App& cmd, Ignored& ignored) {
  for (const char* name :
       {"--trust-remote-code", "--enforce-eager", "--enable-chunked-prefill",
        "--enable-auto-tool-choice", "--no-enable-chunked-prefill", "--use-per-layer-block-manager",
        "--disable-v2-block-manager", "--enable-two-level-page"}) {
    cmd.add_flag_callback(name, [&ignored, name] { ignored.seen.emplace_back(name); })->group("");
  }
  for (const char* name : {"--gpu-memory-utilization", "--swap-space", "--tokenizer-mode",
                           "--uvicorn-log-level", "--max-seq-len-to-capture"}) {
    cmd.add_option_function<std::string>(
           name, [&ignored, name](const std::string&) { ignored.seen.emplace_back(name); })
        ->group("");
  }
}

// Flags that ask for several devices: one is what there is.
void add_parallel_flags(CLI::App& cmd) {
  const auto is_one = [](const std::string& text) {
    return text == "1" ? std::string()
                       : fmt::format("{} devices are not supported, a server runs on 1", text);
  };
  for (const char* name : {"--tensor-parallel-size", "--pipeline-parallel-size"}) {
    cmd.add_option_function<std::string>(name, [](const std::string&) {})
        ->check(CLI::Validator(is_one, ""))
        ->group("");
  }
}

tl::unexpected<Error> bad_limit(const std::string& text) {
  return fail(ErrorCode::kInvalid,
              "--limit-mm-per-prompt is '{}', image=10 or {{\"image\": 10}} is required", text);
}

Result<void> read_limits(const std::vector<std::string>& given,
                         std::map<std::string, std::int64_t>& limits) {
  for (const auto& text : given) {
    if (text.starts_with("{")) {
      TRY(const json::value tree, json::parse(text));
      if (!tree.is_object()) return bad_limit(text);
      for (const auto& member : tree.get_object()) {
        TRY(const std::int64_t limit,
            json::get_int(tree.get_object(), std::string_view(member.key())));
        if (limit < 0) return bad_limit(text);
        limits[std::string(member.key())] = limit;
      }
      continue;
    }
    const std::size_t equals = text.find('=');
    std::int64_t limit = -1;
    const char* const last = text.data() + text.size();
    const char* const first = equals == std::string::npos ? last : text.data() + equals + 1;
    const auto [end, error] = std::from_chars(first, last, limit);
    if (error != std::errc() || end != last || limit < 0) return bad_limit(text);
    limits[text.substr(0, equals)] = limit;
  }
  return {};
}

// A JSON list is taken for names too: its brackets are read as a list, the quotes are left.
void strip_quotes(std::vector<std::string>& names) {
  for (std::string& name : names) {
    const std::size_t begin = name.find_first_not_of(" \"");
    const std::size_t end = name.find_last_not_of(" \"");
    name = begin == std::string::npos ? "" : name.substr(begin, end - begin + 1);
  }
}

// What names a file or a folder is looked at before anything is loaded.
Result<void> check_files(serve::ServeSettings& s) {
  if (!s.tls_key.empty() && s.tls_certificate.empty())
    return fail(ErrorCode::kInvalid,
                "--ssl-keyfile is given without --ssl-certfile: the server would speak plain HTTP");
  if (s.tls_key.empty()) s.tls_key = s.tls_certificate;  // one file may have both
  std::error_code ignored;
  const std::string& local = s.media.allowed_local_path;
  if (!local.empty() && !std::filesystem::is_directory(local, ignored))
    return fail(ErrorCode::kNotFound, "--allowed-local-media-path {}: no such folder", local);
  for (const std::string& key : s.api_keys) {
    if (key.empty())
      return fail(ErrorCode::kInvalid, "--api-key is empty: it would let everybody in");
  }
  return {};
}

// Names of parsers, before anything is loaded.
Result<void> check_parsers(const serve::ServeSettings& s) {
  if (s.tool_call_parser != "auto")
    TRY_DO(tools::tool_call_format(s.tool_call_parser).map([](auto) {}));
  if (!s.reasoning_parser.empty() && s.reasoning_parser != "auto")
    TRY_DO(tools::reasoning_format(s.reasoning_parser).map([](auto) {}));
  return {};
}

Result<void> choose_generation_config(const std::string& given, serve::ServeSettings& s) {
  s.use_generation_config = given != "vllm";
  if (given == "vllm" || given == "auto") return {};
  s.generation_config = given;
  std::error_code ignored;
  if (std::filesystem::exists(given + "/generation_config.json", ignored)) return {};
  return fail(ErrorCode::kNotFound,
              "--generation-config {}: auto, vllm, or a folder with generation_config.json is "
              "required",
              given);
}

Result<void> complete(Flags& f) {
  auto& s = f.settings;
  if (!f.positional_model.empty()) s.model = f.positional_model;
  if (s.model.empty())
    return fail(ErrorCode::kInvalid, "no model is given: saccade serve --model DIR");
  for (const char* variable : {"SACCADE_API_KEY", "VLLM_API_KEY"}) {
    const char* key = std::getenv(variable);
    if (key != nullptr && *key != '\0' && s.api_keys.empty()) s.api_keys.emplace_back(key);
  }
  strip_quotes(s.allowed_origins);
  TRY_DO(read_limits(f.limit_mm, s.limit_mm_per_prompt));
  if (!f.mm_processor_kwargs.empty()) {
    auto tree = json::parse(f.mm_processor_kwargs);
    if (!tree || !tree->is_object())
      return fail(ErrorCode::kInvalid, "--mm-processor-kwargs is not a JSON object");
    for (const auto& member : tree->get_object()) {
      const std::string_view name = member.key();
      TRY(const std::int64_t pixels, json::get_int(tree->get_object(), name));
      if (pixels < 1)
        return fail(ErrorCode::kInvalid, "--mm-processor-kwargs: {} is {}, it must be above 0",
                    name, pixels);
      if (name == "min_pixels") {
        s.min_pixels = pixels;
      } else if (name == "max_pixels") {
        s.max_pixels = pixels;
      } else {
        return fail(ErrorCode::kInvalid,
                    "--mm-processor-kwargs: '{}' is not known; min_pixels and max_pixels are",
                    name);
      }
    }
  }
  TRY_DO(serve::choose_image_size(f.image_size, s.image_size));
  TRY(s.image_size.ttft_target, parse_duration("--ttft-target", f.ttft_target));
  s.image_size.refuse_late = f.over_target == "refuse";
  TRY_DO(check_parsers(s));
  TRY_DO(check_files(s));
  TRY_DO(choose_generation_config(f.generation_config, s));
  if (f.no_prefix_caching) s.engine.prefix_caching = false;
  s.max_body_bytes = f.body_mib << 20;
  s.drain_time = std::chrono::seconds(f.drain_seconds);
  s.throughput_interval = std::chrono::seconds(f.throughput_seconds);
  s.media.total_timeout = std::chrono::seconds(f.media_seconds);
  log::set_level(f.log_level == "debug"     ? log::Level::kDebug
                 : f.log_level == "warning" ? log::Level::kWarning
                 : f.log_level == "error"   ? log::Level::kError
                                            : log::Level::kInfo);
  return {};
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  auto ignored = std::make_shared<Ignored>();
  CLI::App* cmd = app.add_subcommand("serve", "answer the OpenAI API from a checkpoint");
  cmd->add_option("--config", flags->config, "file with these names: TOML, INI or flat YAML");
  add_server_flags(*cmd, *flags);
  add_model_flags(*cmd, *flags);
  add_image_size_flags(*cmd, *flags);
  add_engine_flags(*cmd, *flags);
  add_cluster_flags(*cmd, *flags);
  add_ignored_flags(*cmd, *ignored);
  add_parallel_flags(*cmd);
  cmd->callback([cmd, flags, ignored, &exit_code] {
    auto ready = flags->config.empty() ? Result<void>() : read_config_file(*cmd, flags->config);
    if (ready) ready = complete(*flags);
    if (ready) {
      if (!ignored->seen.empty()) {
        log::info("accepted and without effect here: {}", fmt::join(ignored->seen, " "));
      }
      ready = serve::run_server(flags->settings);
    }
    if (!ready) {
      log::error("{}", ready.error().message);
      exit_code = 1;
    }
  });
}

}  // namespace saccade
