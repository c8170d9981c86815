#include "text/chat_template.h"

#include <boost/json/array.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "text/jinja_globals.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace saccade {
namespace {

constexpr std::string_view kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

// A list of dicts as the template sees it; none for null.
Result<jinja::Value> list_or_none(jinja::RenderState& state, const json::array* items) {
  if (items == nullptr) return jinja::Value();
  std::vector<jinja::Value> values;
  for (const auto& item : *items) {
    TRY(jinja::Value value, jinja::from_json(state, item));
    values.push_back(std::move(value));
  }
  return state.list(std::move(values));
}

Result<std::string> read_text(const std::string& path) {
  std::error_code code;
  const std::uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code) return fail(ErrorCode::kNotFound, "{}: {}", path, code.message());
  if (bytes > jinja::kMaxSourceBytes) {
    return fail(ErrorCode::kTooLarge, "{}: {} bytes, limit {}", path, bytes,
                jinja::kMaxSourceBytes);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "{}: cannot be opened", path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text;
}

// "chat_template" of a JSON file: a string, or a list of {"name", "template"} with a "default".
Result<std::string> template_member(const json::object& from, const std::string& path) {
  const json::value* member = json::find(from, "chat_template");
  if (member == nullptr) return fail(ErrorCode::kNotFound, "{}: no chat_template", path);
  if (member->is_string()) return std::string(member->get_string());
  if (!member->is_array()) {
    return fail(ErrorCode::kInvalid, "{}: chat_template is {}, a string or a list is required",
                path, json::kind_name(*member));
  }
  for (const auto& entry : member->get_array()) {
    if (!entry.is_object()) continue;
    TRY(const std::string name, json::get_string_or(entry.get_object(), "name", ""));
    if (name != "default") continue;
    auto text = json::get_string(entry.get_object(), "template");
    if (!text) return fail_within(path, std::move(text).error());
    return text;
  }
  return fail(ErrorCode::kNotFound, "{}: no chat_template is named 'default'", path);
}

// Tokens are strings, or objects that hold one as "content".
void take_special_tokens(const json::object& config, json::object& variables) {
  for (const std::string_view name : kSpecialTokens) {
    const json::value* token = json::find(config, name);
    if (token == nullptr) continue;
    const json::value* text =
        token->is_object() ? json::find(token->get_object(), "content") : token;
    if (text && text->is_string()) variables[name] = text->get_string();
  }
}

}  // namespace

struct ChatTemplate::Program {
  jinja::Program program;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  auto parsed = jinja::parse(source);
  if (!parsed) return fail_within("chat template", std::move(parsed).error());
  return ChatTemplate(std::make_unique<Program>(Program{*std::move(parsed)}));
}

Result<std::string> ChatTemplate::render(const json::array& messages,
                                         const ChatTemplateOptions& options) const {
  jinja::RenderState state({}, options.now_unix_seconds);
  jinja::Variables variables;
  jinja::add_globals(state, variables);
  TRY(variables["messages"], list_or_none(state, &messages));
  TRY(variables["tools"], list_or_none(state, options.tools));
  TRY(variables["documents"], list_or_none(state, options.documents));
  variables["add_generation_prompt"] = jinja::Value::boolean(options.add_generation_prompt);
  for (const auto& member : options.variables) {
    TRY(variables[std::string(member.key())], jinja::from_json(state, member.value()));
  }
  auto text = jinja::Interpreter(state, variables).run(program_->program);
  if (!text && !state.raised()) return fail_within("chat template", std::move(text).error());
  return text;
}

Result<LoadedChatTemplate> load_chat_template(const std::string& directory) {
  const auto path = [&](std::string_view name) { return fmt::format("{}/{}", directory, name); };
  const auto exists = [&](std::string_view name) {
    std::error_code code;
    return std::filesystem::exists(path(name), code);
  };
  LoadedChatTemplate loaded;
  json::object config;
  if (exists("tokenizer_config.json")) {
    TRY(json::value parsed, json::parse_file(path("tokenizer_config.json")));
    if (!parsed.is_object()) {
      return fail(ErrorCode::kInvalid, "{} is {}, an object is required",
                  path("tokenizer_config.json"), json::kind_name(parsed));
    }
    config = std::move(parsed.get_object());
    take_special_tokens(config, loaded.variables);
  }
  if (exists("chat_template.jinja")) {
    TRY(loaded.source, read_text(path("chat_template.jinja")));
  } else if (exists("chat_template.json")) {
    TRY(const json::value parsed, json::parse_file(path("chat_template.json")));
    if (!parsed.is_object()) {
      return fail(ErrorCode::kInvalid, "{} is {}, an object is required",
                  path("chat_template.json"), json::kind_name(parsed));
    }
    TRY(loaded.source, template_member(parsed.get_object(), path("chat_template.json")));
  } else if (json::find(config, "chat_template") != nullptr) {
    TRY(loaded.source, template_member(config, path("tokenizer_config.json")));
  } else {
    return fail(
        ErrorCode::kNotFound,
        "{} has no chat template (chat_template.jinja, chat_template.json, or chat_template "
        "in tokenizer_config.json)",
        directory);
  }
  return loaded;
}

}  // namespace saccade
