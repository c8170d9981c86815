#include "bench/serve_settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/json.h"
#include "bench/datasets/image_source.h"

namespace saccade::bench {
namespace {

constexpr double kMaxSeconds = 1e8;              // three years
constexpr std::size_t kMaxPrompts = 10'000'000;  // a negative number wraps far above it

bool is_chat(const TargetChoice& choice) { return choice.backend.ends_with("-chat"); }

Result<json::object> object_from(const std::string& text, std::string_view option) {
  if (text.empty()) return json::object();
  auto parsed = json::parse(text);
  if (!parsed) return fail_within(option, std::move(parsed).error());
  if (!parsed->is_object())
    return fail(ErrorCode::kInvalid, "{}: {} is given, an object is required", option,
                json::kind_name(*parsed));
  return parsed->get_object();
}

Result<std::pair<std::string, std::string>> key_value(const std::string& text,
                                                      std::string_view option) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    return fail(ErrorCode::kInvalid, "{} '{}' is not of the form KEY=VALUE", option, text);
  return std::pair{text.substr(0, equals), text.substr(equals + 1)};
}

// RFC 9110's field name, and a value that ends no line.
Result<void> check_header(const std::string& name, const std::string& value) {
  const auto is_token = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!std::ranges::all_of(name, is_token))
    return fail(ErrorCode::kInvalid, "--header '{}': a header's name has no such characters", name);
  const auto ends_line = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  if (std::ranges::any_of(value, ends_line))
    return fail(ErrorCode::kInvalid, "--header {}: the value has a line break", name);
  return {};
}

bool has_header(const StringPairs& headers, std::string_view lower_case_name) {
  return std::any_of(headers.begin(), headers.end(), [&](const auto& header) {
    std::string name = header.first;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name == lower_case_name;
  });
}

}  // namespace

std::string endpoint_of(const TargetChoice& choice) {
  if (!choice.endpoint.empty()) return choice.endpoint;
  const bool below_v1 = choice.base_url.ends_with("/v1") || choice.base_url.ends_with("/v1/");
  const std::string path = is_chat(choice) ? "/chat/completions" : "/completions";
  return below_v1 ? path : "/v1" + path;
}

Result<ServerTarget> server_target(const TargetChoice& choice) {
  ServerTarget target;
  target.base_url = choice.base_url.empty() ? fmt::format("http://{}:{}", choice.host, choice.port)
                                            : choice.base_url;
  TRY_DO(target.url(endpoint_of(choice)).map([](const auto&) {}));
  for (const std::string& header : choice.headers) {
    TRY(auto pair, key_value(header, "--header"));
    TRY_DO(check_header(pair.first, pair.second));
    target.headers.push_back(std::move(pair));
  }
  if (const char* key = std::getenv("OPENAI_API_KEY");
      key != nullptr && *key != '\0' && !has_header(target.headers, "authorization"))
    target.headers.emplace_back("Authorization", fmt::format("Bearer {}", key));
  target.client.verify_tls = !choice.insecure;
  target.client.ca_file = choice.ca_file;
  target.client.fresh_connections = choice.fresh_connections;
  return target;
}

Result<BodySettings> body_settings(const ServeSettings& settings, const std::string& model,
                                   bool has_tokenizer) {
  const std::string compat = resolved_compat(settings);
  BodySettings body = settings.body;
  body.model =
      settings.target.served_model_name.empty() ? model : settings.target.served_model_name;
  body.lora_modules = settings.target.lora_modules;
  body.lora_in_turn = settings.target.lora_in_turn;
  body.lora_seed = settings.seed;
  body.endpoint = is_chat(settings.target) ? Endpoint::kChat : Endpoint::kCompletions;
  if (compat == "vllm-2024") {
    body.max_tokens_key = "max_tokens";
    if (!body.temperature) body.temperature = 0.0;
    // That client counts the answers with its own tokenizer; without one, usage is needed.
    body.include_usage = !has_tokenizer;
  }
  if (compat == "vllm" && body.endpoint == Endpoint::kCompletions && !body.repetition_penalty)
    body.repetition_penalty = 1.0;
  if (compat == "genai-bench") {
    body.max_tokens_key = "max_tokens";
    if (!body.temperature) body.temperature = 0.0;
  }
  if (settings.data.name == "random" || settings.data.name == "random-mm") body.ignore_eos = true;
  body.continuous_usage_stats = settings.continuous_usage.value_or(compat == "saccade");
  TRY(const json::object kwargs,
      object_from(settings.chat_template_kwargs, "--chat-template-kwargs"));
  TRY(const json::object extra, object_from(settings.extra_body, "--extra-body"));
  if (!kwargs.empty()) body.extra["chat_template_kwargs"] = kwargs;
  if (settings.server_timings) body.extra["metrics"] = true;
  for (const auto& member : extra) body.extra[member.key()] = member.value();
  return body;
}

ArrivalSettings arrival_settings(const ServeSettings& settings, double request_rate) {
  const std::string compat = resolved_compat(settings);
  ArrivalSettings arrivals = settings.load.arrivals;
  arrivals.request_rate = request_rate;
  arrivals.rescale = compat == "vllm";
  arrivals.first_at_zero = compat == "vllm-2024" || compat == "sglang";
  arrivals.duration = static_cast<Nanos>(settings.load.duration_s * 1e9);
  return arrivals;
}

Result<void> check(const ServeSettings& s) {
  std::vector<std::string> found;
  const auto require = [&](bool good, std::string problem) {
    if (!good) found.push_back(std::move(problem));
  };
  const auto add = [&](const auto& result) {
    if (!result) found.push_back(result.error().message);
  };
  const auto& backend = s.target.backend;
  require(
      backend == "openai" || backend == "openai-chat" || backend == "vllm" ||
          backend == "vllm-chat",
      fmt::format("--backend '{}' is not one of openai, openai-chat, vllm, vllm-chat", backend));
  add(server_target(s.target));
  add(body_settings(s, "", true));
  add(metric_options(resolved_compat(s), s.output.goodput));
  for (const std::string& entry : s.output.metadata) add(key_value(entry, "--metadata"));
  const auto arrivals = s.load.arrivals.problems();
  found.insert(found.end(), arrivals.begin(), arrivals.end());
  if (!s.load.rate_sweep.empty()) add(parse_rate_sweep(s.load.rate_sweep));
  require(s.load.rate_sweep.empty() || s.load.levels.empty(),
          "--request-rate-sweep and --num-concurrency are two kinds of sweep: give one");
  require(!s.load.closed_loop || s.load.max_concurrency > 0,
          "--closed-loop needs --max-concurrency");
  require(s.load.max_concurrency >= 0, "--max-concurrency must not be negative");
  for (const std::int64_t level : s.load.levels)
    require(level > 0, fmt::format("--num-concurrency {} must be above 0", level));
  require(s.load.threads >= 1 && s.load.threads <= 256, "--threads must be 1 to 256");
  require(s.data.num_prompts >= 1 && s.data.num_prompts <= kMaxPrompts,
          fmt::format("--num-prompts must be 1 to {}", kMaxPrompts));
  require(s.check.repeat >= 1, "--repeat must be at least 1");
  require(s.check.num_warmups >= 0, "--num-warmups must not be negative");
  const auto time = [&](std::string_view flag, double seconds, bool above) {
    require((above ? seconds > 0 : seconds >= 0) && seconds <= kMaxSeconds,
            fmt::format("{} is {}, seconds {} 0 and at most {} are required", flag, seconds,
                        above ? "above" : "from", kMaxSeconds));
  };
  time("--duration", s.load.duration_s, false);
  time("--drain-limit", s.load.drain_s, false);
  time("--request-timeout", s.load.timeout_s, true);
  add(parse_image_encoding(s.data.image_encoding));
  for (const std::string& name : s.target.lora_modules)
    require(!name.empty(), "--lora-modules holds an empty name");
  require(s.check.server_cmd.empty() || s.check.ready_timeout_s > 0,
          "--server-cmd needs --ready-check-timeout-sec");
  if (!found.empty()) return fail(ErrorCode::kInvalid, "{}", fmt::join(found, "; "));
  return {};
}

}  // namespace saccade::bench
