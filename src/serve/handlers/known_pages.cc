#include "serve/handlers/known_pages.h"

#include <memory>
#include <utility>

#include "base/regular_file.h"

namespace saccade::serve {
namespace {

constexpr std::size_t kMaxConfig = std::size_t{64} << 20;

std::string_view token_of(const KnownModel& model, std::string_view name) {
  const json::value* token = json::find(model.tokens, name);
  return token != nullptr && token->is_string() ? std::string_view(token->get_string())
                                                : std::string_view();
}

}  // namespace

Result<std::string> tokenizer_info(const KnownModel& model) {
  const std::string path = model.tokenizer + "/tokenizer_config.json";
  auto text = read_regular_file(path, kMaxConfig);
  if (!text)
    return fail(ErrorCode::kNotFound,
                "the checkpoint has no tokenizer_config.json that can be read");
  TRY(json::value tree, json::parse(*text));
  if (!tree.is_object()) return fail(ErrorCode::kInternal, "{} is no JSON object", path);
  json::object& members = tree.get_object();
  if (!model.chat_template.empty()) members["chat_template"] = json::string(model.chat_template);
  std::string body;
  json::JsonWriter(body).value(tree);
  return body;
}

std::string props(const KnownModel& model, std::string_view version) {
  std::string body;
  json::JsonWriter w(body);
  w.begin_object();
  w.key("default_generation_settings");
  w.begin_object();
  w.member("n_ctx", model.max_model_len);
  w.end_object();
  w.member("total_slots", model.max_running);
  w.member("model_alias", std::string_view(model.name));
  w.member("model_path", std::string_view(model.path));
  w.key("modalities");
  w.begin_object();
  w.member("vision", model.vision);
  w.member("video", model.video);
  w.member("audio", false);
  w.end_object();
  w.member("endpoint_slots", true);
  w.member("endpoint_props", false);
  w.member("endpoint_metrics", true);
  w.member("chat_template", std::string_view(model.chat_template));
  w.member("bos_token", token_of(model, "bos_token"));
  w.member("eos_token", token_of(model, "eos_token"));
  w.member("build_info", std::string_view(fmt::format("saccade {}", version)));
  w.member("is_sleeping", false);
  w.end_object();
  return body;
}

std::string slots(const KnownModel& model, std::int64_t running) {
  std::string body;
  json::JsonWriter w(body);
  w.begin_array();
  for (std::int64_t id = 0; id < model.max_running; ++id) {
    w.begin_object();
    w.member("id", id);
    w.member("n_ctx", model.max_model_len);
    w.member("is_processing", id < running);
    w.end_object();
  }
  w.end_array();
  return body;
}

void add_known_pages(Router& router, KnownModel model, std::function<std::int64_t()> running) {
  const auto known = std::make_shared<const KnownModel>(std::move(model));
  router.add_json("GET", "/tokenizer_info", true,
                  [known](const net::HttpRequest&) { return tokenizer_info(*known); });
  router.add_json("GET", "/props", false, [known](const net::HttpRequest&) -> Result<std::string> {
    return props(*known, SACCADE_VERSION);
  });
  router.add_json(
      "GET", "/slots", false,
      [known, running = std::move(running)](const net::HttpRequest&) -> Result<std::string> {
        return slots(*known, running());
      });
}

}  // namespace saccade::serve
