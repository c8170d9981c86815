// From the flags of `saccade serve` and the environment to settings that hold together.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/requests/chat_request.h"
#include "apps/flags/duration_flag.h"
#include "apps/flags/gpu_flags.h"
#include "apps/flags/serve_environment.h"
#include "apps/flags/serve_flags.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text/ascii.h"
#include "model/checkpoint/hub_cache.h"
#include "model/gguf/gguf_paths.h"
#include "tools/formats.h"

namespace saccade {
namespace {

constexpr std::int64_t kNoLimit = 999;  // of an object without a count: vLLM's

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
        // vLLM's longer form has the most sizes too, for its memory profile.
        const bool longer = member.value().is_object();
        TRY(const std::int64_t limit,
            longer ? json::get_int_or(member.value().get_object(), "count", kNoLimit)
                   : json::get_int(tree.get_object(), std::string_view(member.key())));
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
  for (const std::string& name : s.served_model_name) {
    if (name.empty())
      return fail(ErrorCode::kInvalid,
                  "--served-model-name is empty: requests could not name the model");
  }
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

// An object that a flag is given as text; absent: an empty one.
Result<json::object> object_of(std::string_view flag, const std::string& text) {
  if (text.empty()) return json::object{};
  auto tree = json::parse(text);
  if (tree && tree->is_object()) return std::move(tree->get_object());
  return fail(ErrorCode::kInvalid, "{} is '{}', a JSON object is required{}", flag,
              text.substr(0, 80), tree ? "" : ": " + tree.error().message);
}

// vLLM's media_io_kwargs, as far as they say which frames are taken; its -1 says nothing.
Result<void> read_frame_choice(const std::string& text, FrameChoice& choice) {
  constexpr std::string_view kFlag = "--media-io-kwargs";
  TRY(const json::object tree, object_of(kFlag, text));
  for (const auto& member : tree) {
    const std::string_view kind = member.key();
    if (!member.value().is_object() || (kind != "video" && !member.value().get_object().empty()))
      return fail(ErrorCode::kInvalid, "{}: '{}' is not known; video with num_frames and fps is",
                  kFlag, kind);
    for (const auto& wish : member.value().get_object()) {
      const std::string_view name = wish.key();
      const json::value& value = wish.value();
      const double number = value.is_number() ? value.to_number<double>() : 0;
      if (name != "num_frames" && name != "fps")
        return fail(ErrorCode::kInvalid, "{}: video.{} is not known; num_frames and fps are", kFlag,
                    name);
      if (number != -1 && (number <= 0 || (name == "num_frames" && !value.is_int64())))
        return fail(ErrorCode::kInvalid, "{}: video.{} must be a number above 0, or -1", kFlag,
                    name);
      if (number == -1) continue;
      if (name == "fps") choice.fps = number;
      if (name == "num_frames") choice.num_frames = value.get_int64();
    }
  }
  return {};
}

Result<void> read_pixel_limits(const std::string& text, serve::ServeSettings& s) {
  TRY(const json::object tree, object_of("--mm-processor-kwargs", text));
  for (const auto& member : tree) {
    const std::string_view name = member.key();
    TRY(const std::int64_t pixels, json::get_int(tree, name));
    if (pixels < 1)
      return fail(ErrorCode::kInvalid, "--mm-processor-kwargs: {} is {}, it must be above 0", name,
                  pixels);
    if (name == "min_pixels") {
      s.min_pixels = pixels;
    } else if (name == "max_pixels") {
      s.max_pixels = pixels;
    } else {
      return fail(ErrorCode::kInvalid,
                  "--mm-processor-kwargs: '{}' is not known; min_pixels and max_pixels are", name);
    }
  }
  return {};
}

// vLLM's members: those that ask for what is done anyway are taken.
Result<void> read_structured_outputs(const std::string& text, serve::ServeSettings& s) {
  constexpr std::string_view kFlag = "--structured-outputs-config";
  constexpr std::array kIdle = {"backend", "disable_fallback", "disable_additional_properties"};
  TRY(const json::object tree, object_of(kFlag, text));
  for (const auto& member : tree) {
    const std::string_view name = member.key();
    if (std::ranges::find(kIdle, name) != kIdle.end()) continue;
    if (name == "reasoning_parser" || name == "reasoning_parser_plugin") {
      TRY(std::string given, json::get_string(tree, name));
      if (name == "reasoning_parser_plugin" && !given.empty())
        return fail(ErrorCode::kInvalid, "{}: reasoning_parser_plugin is '{}': no Python is run",
                    kFlag, given.substr(0, 80));
      if (!given.empty()) s.reasoning_parser = std::move(given);  // vLLM's default is empty
      continue;
    }
    const bool known = name == "disable_any_whitespace" || name == "enable_in_reasoning";
    if (!known)
      return fail(ErrorCode::kInvalid,
                  "{}: '{}' is not known; disable_any_whitespace, reasoning_parser and backend are",
                  kFlag, name);
    TRY(const bool on, json::get_bool(tree, name));
    if (name == "enable_in_reasoning" && !on)
      return fail(
          ErrorCode::kInvalid,
          "{}: enable_in_reasoning is false: a grammar holds thoughts too; ask with thinking off",
          kFlag);
    if (name == "disable_any_whitespace")
      s.blanks = on ? api::StructuredOutput::Blanks::kNone : api::StructuredOutput::Blanks::kAny;
  }
  return {};
}

// Members that have no place here are named, once.
Result<void> read_generation_overrides(ServeFlags& f) {
  constexpr std::array kKnown = {"temperature", "top_p",          "top_k",
                                 "min_p",       "max_new_tokens", "repetition_penalty"};
  TRY(f.settings.generation_overrides,
      object_of("--override-generation-config", f.generation_overrides));
  for (const auto& member : f.settings.generation_overrides) {
    if (std::ranges::find(kKnown, std::string_view(member.key())) == kKnown.end())
      return fail(ErrorCode::kInvalid, "--override-generation-config: '{}' is not known; {} are",
                  std::string_view(member.key()), fmt::join(kKnown, ", "));
  }
  return {};
}

void read_media_cache(double gib, EngineSettings& engine) {
  if (gib < 0) return;
  if (gib == 0) {
    engine.encoder_cache = EncoderCache::kOff;
  } else {
    engine.encoder_cache_bytes = static_cast<std::size_t>(gib * 0x1p30);
  }
}

Result<std::string> root_path(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  if (path.empty() || path.starts_with('/')) return path;
  return fail(ErrorCode::kInvalid, "--root-path is '{}': a path that begins with / is required",
              path);
}

// --log-level, else --uvicorn-log-level, else VLLM_LOGGING_LEVEL.
Result<void> set_log_level(const ServeFlags& f, const std::string& variable) {
  std::string level = !f.log_level.empty()           ? f.log_level
                      : !f.uvicorn_log_level.empty() ? f.uvicorn_log_level
                                                     : variable;
  level = ascii::lower(level);
  if (level == "debug" || level == "trace") {
    log::set_level(log::Level::kDebug);
  } else if (level.empty() || level == "info" || level == "notset") {
    log::set_level(log::Level::kInfo);
  } else if (level == "warning" || level == "warn") {
    log::set_level(log::Level::kWarning);
  } else if (level == "error" || level == "critical" || level == "fatal") {
    log::set_level(log::Level::kError);
  } else {
    return fail(ErrorCode::kInvalid,
                "VLLM_LOGGING_LEVEL is '{}': DEBUG, INFO, WARNING and ERROR are known", variable);
  }
  return {};
}

Result<void> read_variables(ServeFlags& f) {
  auto& s = f.settings;
  TRY(EnvironmentDefaults defaults, read_environment());
  TRY_DO(set_log_level(f, defaults.log_level));
  if (s.api_keys.empty()) s.api_keys = std::move(defaults.api_keys);
  if (f.throughput_seconds < 0 && defaults.log_interval >= 0)
    f.throughput_seconds = static_cast<int>(std::ceil(defaults.log_interval));
  if (f.media_seconds < 0 && defaults.media_seconds > 0)
    f.media_seconds = static_cast<int>(std::ceil(defaults.media_seconds));
  if (s.engine.kv_cache_bytes == 0) s.engine.kv_cache_bytes = defaults.kv_cache_bytes;
  f.notices = std::move(defaults.notices);
  TRY(BoundProcessors bound, bind_processors(s.tensor_parallel));
  if (s.threads == 0) s.threads = bound.threads;
  s.rank_processors = std::move(bound.ranks);
  return {};
}

// --mmproj: the model is two files from here on, and is called what the first one is. Of what is on
// the hub fetch_checkpoint() adds it.
Result<void> add_projector(const std::string& projector, serve::ServeSettings& settings) {
  if (projector.empty() || hub_name_of(settings.model)) return {};
  TRY(std::optional<GgufPaths> paths, find_gguf(settings.model));
  if (!paths)
    return fail(ErrorCode::kInvalid,
                "--mmproj {} goes with a model in GGUF; {} is none, and has its own tower",
                projector, settings.model);
  paths->projector = projector;
  if (settings.served_model_name.empty()) settings.served_model_name.push_back(settings.model);
  settings.model = gguf_place(*paths);
  return {};
}

}  // namespace

Result<void> complete(ServeFlags& f) {
  auto& s = f.settings;
  if (!f.positional_model.empty()) s.model = f.positional_model;
  if (s.model.empty()) return fail(ErrorCode::kInvalid, "no model is given: --model DIR");
  TRY_DO(add_projector(f.projector, s));
  TRY_DO(read_variables(f));
  complete_gpu_flags(f);
  strip_quotes(s.allowed_origins);
  strip_quotes(s.allowed_hosts);
  if (f.language_model_only) s.limit_mm_per_prompt = {{"image", 0}, {"video", 0}};
  TRY_DO(read_limits(f.limit_mm, s.limit_mm_per_prompt));
  TRY_DO(read_pixel_limits(f.mm_processor_kwargs, s));
  TRY_DO(read_frame_choice(f.media_io_kwargs, s.video_frames));
  s.video_time = std::chrono::seconds(f.video_seconds);
  TRY_DO(read_generation_overrides(f));
  TRY(s.config_overrides, object_of("--hf-overrides", f.config_overrides));
  TRY(s.chat_template_kwargs, object_of("--default-chat-template-kwargs", f.chat_template_kwargs));
  TRY_DO(api::check_template_kwargs(s.chat_template_kwargs, "--default-chat-template-kwargs"));
  TRY_DO(read_structured_outputs(f.structured_outputs_config, s));
  read_media_cache(f.media_cache_gib, s.engine);
  if (f.per_layer_pages) s.engine.kv_policy = KvPolicy::kJenga;  // over a configuration's
  s.kept_image_bytes = static_cast<std::size_t>(f.kept_image_gib * (1 << 30));
  TRY(s.root_path, root_path(std::move(s.root_path)));
  TRY_DO(serve::choose_image_size(f.image_size, s.image_size));
  if (!f.seed_line.empty()) {
    const serve::ImageSizeMode mode = s.image_size.mode;
    if (mode != serve::ImageSizeMode::kSeed && mode != serve::ImageSizeMode::kSeedAsPublished)
      return fail(ErrorCode::kInvalid,
                  "--seed-line {} has no effect with --image-size {}: seed and seed-as-published "
                  "take it",
                  f.seed_line, f.image_size);
    auto line = cluster::parse_seed_line(f.seed_line);
    if (!line) return fail_within("--seed-line", std::move(line).error());
    s.image_size.seed_line = *line;
  }
  if (!f.speculative_config.empty()) {
    auto config = parse_speculative_config(f.speculative_config);
    if (!config) return fail_within("--speculative-config", std::move(config).error());
    s.engine.speculation = *config;
  }
  TRY_DO(complete_lora(f.lora, s));
  TRY(s.cache_events, cluster::parse_cache_event_settings(f.kv_events_config));
  if (s.cache_events.enabled && !s.engine.prefix_caching)
    return fail(ErrorCode::kInvalid,
                "--kv-events-config with --no-enable-prefix-caching: there is no cache to tell of");
  TRY(s.image_size.ttft_target, parse_duration("--ttft-target", f.ttft_target));
  TRY(s.cluster.shared_rows_ttl, parse_duration("--shared-rows-ttl", f.shared_rows_ttl));
  TRY_DO(check_parsers(s));
  TRY_DO(check_files(s));
  TRY_DO(choose_generation_config(f.generation_config, s));
  constexpr int kAnyNumber = 1 << 20;
  if (s.engine.max_logprobs < 0) s.engine.max_logprobs = kAnyNumber;
  s.max_body_bytes = f.body_mib << 20;
  s.drain_time = std::chrono::seconds(f.drain_seconds);
  s.throughput_interval =
      std::chrono::seconds(f.throughput_seconds < 0 ? 10 : f.throughput_seconds);
  s.media.total_timeout = std::chrono::seconds(f.media_seconds < 0 ? 30 : f.media_seconds);
  return {};
}

}  // namespace saccade
