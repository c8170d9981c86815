#include "serve/assembly/early_checks.h"

#include "api/pages/error_table.h"
#include "base/regular_file.h"
#include "engine/admission/memory_budget.h"
#include "model/families.h"
#include "model/family.h"
#include "text/jinja/syntax/parser.h"
#include "text/templates/chat_template.h"
#include "text/templates/content_format.h"

namespace saccade::serve {

net::HttpServerSettings http_settings(const ServeSettings& settings) {
  net::HttpServerSettings http;
  http.host = settings.host;
  http.port = settings.port;
  http.io_threads = settings.io_threads;
  http.max_body_bytes = settings.max_body_bytes;
  http.tls_certificate = settings.tls_certificate;
  http.tls_key = settings.tls_key;
  http.error_body = [](int status, std::string_view message) {
    return api::error_body(status, message);
  };
  return http;
}

Result<std::string> template_source(const std::string& given) {
  if (given.find('{') != std::string::npos) return given;
  auto text = read_regular_file(given, jinja::kMaxSourceBytes);
  if (!text) return fail_within("--chat-template", std::move(text).error());
  if (text->find_first_not_of(" \t\r\n") == std::string::npos)
    return fail(ErrorCode::kInvalid,
                "--chat-template: {}: nothing is in it ({} bytes), and every prompt would be empty",
                given, text->size());
  return text;
}

Result<void> check_listener(const ServeSettings& settings) {
  for (const std::string& file : {settings.tls_certificate, settings.tls_key}) {
    constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
    if (!file.empty()) TRY_DO(read_regular_file(file, kMaxBytes));
  }
  TRY_DO(net::HttpServer::check(http_settings(settings)));
  if (settings.chat_template.empty()) return {};
  TRY(const std::string source, template_source(settings.chat_template));
  auto parsed = ChatTemplate::parse(source);
  if (!parsed) return fail_within("--chat-template", std::move(parsed).error());
  const auto format = ContentFormat::of(*parsed, settings.chat_template_kwargs);
  if (!format) return fail_within("--chat-template", format.error());
  return {};
}

Result<void> check_sizes(const ServeSettings& settings, const Checkpoint& checkpoint,
                         const Device& device) {
  TRY(const UnloadedModel model, create_model(checkpoint));
  const EngineSettings& engine = settings.engine;
  const std::int64_t longest = model.shape().max_position;
  if (engine.max_model_len > longest)
    return fail(ErrorCode::kInvalid, "max_model_len {} is over the checkpoint's {} positions",
                engine.max_model_len, longest);
  const std::int64_t free = device.free_bytes();
  if (free > 0 && engine.kv_cache_bytes > static_cast<std::size_t>(free))
    return fail(ErrorCode::kExhausted,
                "--kv-cache-bytes: {:.2f} GiB are asked for, and {:.2f} GiB are free, before the "
                "weights",
                gibibytes(static_cast<std::int64_t>(engine.kv_cache_bytes)), gibibytes(free));
  return {};
}

}  // namespace saccade::serve
