#include "text/templates/chat_template.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <map>
#include <memory>
#include <optional>

#include "text/jinja/builtins/globals.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/syntax/parser.h"

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

// A file of the checkpoint that holds one object; empty where there is none.
Result<std::optional<json::object>> object_of(const NamedFiles& files, std::string_view name) {
  if (!files.has(name)) return std::optional<json::object>();
  TRY(json::value parsed, files.parse(name));
  if (!parsed.is_object()) {
    return fail(ErrorCode::kInvalid, "{} is {}, an object is required", files.path(name),
                json::kind_name(parsed));
  }
  return std::optional<json::object>(std::move(parsed.get_object()));
}

// Where no file names a token, its id in config.json and the text of that id in tokenizer.json.
Result<void> take_tokens_by_id(const NamedFiles& files, json::object& tokens) {
  TRY(const auto config, object_of(files, "config.json"));
  if (!config) return {};
  std::map<std::int64_t, std::string_view> wanted;
  for (const std::string_view name : kSpecialTokens) {
    if (tokens.contains(name)) continue;
    const json::value* id = json::find(*config, std::string(name) + "_id");
    if (id != nullptr && id->is_int64()) wanted.emplace(id->get_int64(), name);
  }
  if (wanted.empty()) return {};
  TRY(const auto tokenizer, object_of(files, "tokenizer.json"));
  const json::value* added = tokenizer ? json::find(*tokenizer, "added_tokens") : nullptr;
  if (added == nullptr || !added->is_array()) return {};
  for (const json::value& item : added->get_array()) {
    const json::object* token = item.if_object();
    const json::value* id = token == nullptr ? nullptr : json::find(*token, "id");
    if (id == nullptr || !id->is_int64()) continue;
    const auto found = wanted.find(id->get_int64());
    const json::value* content = json::find(*token, "content");
    if (found != wanted.end() && content != nullptr && content->is_string())
      tokens[found->second] = content->get_string();
  }
  return {};
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
  jinja::RenderLimits limits;
  if (options.steps_left != nullptr)
    limits.max_steps = std::clamp<std::int64_t>(*options.steps_left, 0, limits.max_steps);
  jinja::RenderState state(limits, options.now_unix_seconds);
  const std::shared_ptr<void> taken(nullptr, [&](void*) {
    if (options.steps_left != nullptr) *options.steps_left -= state.steps();
  });
  jinja::Variables variables;
  jinja::add_globals(state, variables);
  for (const auto& member : options.variables) {
    TRY(variables[std::string(member.key())], jinja::from_json(state, member.value()));
  }
  TRY(variables["messages"], list_or_none(state, &messages));
  TRY(variables["tools"], list_or_none(state, options.tools));
  TRY(variables["documents"], list_or_none(state, options.documents));
  variables["add_generation_prompt"] = jinja::Value::boolean(options.add_generation_prompt);
  auto text = jinja::Interpreter(state, variables).run(program_->program);
  if (!text && !state.raised()) return fail_within("chat template", std::move(text).error());
  return text;
}

Result<json::object> load_special_tokens(const NamedFiles& files) {
  TRY(const auto config, object_of(files, "tokenizer_config.json"));
  TRY(const auto map, object_of(files, "special_tokens_map.json"));
  json::object tokens;
  if (map) take_special_tokens(*map, tokens);
  if (config) take_special_tokens(*config, tokens);
  TRY_DO(take_tokens_by_id(files, tokens));
  return tokens;
}

Result<LoadedChatTemplate> load_chat_template(const NamedFiles& files) {
  constexpr std::string_view kJinja = "chat_template.jinja";
  constexpr std::string_view kJson = "chat_template.json";
  LoadedChatTemplate loaded;
  TRY(loaded.variables, load_special_tokens(files));
  TRY(auto found, object_of(files, "tokenizer_config.json"));
  const json::object config = std::move(found).value_or(json::object());
  if (files.has(kJinja)) {
    TRY(loaded.source, files.read(kJinja, jinja::kMaxSourceBytes));
  } else if (files.has(kJson)) {
    TRY(const auto parsed, object_of(files, kJson));
    TRY(loaded.source, template_member(parsed.value_or(json::object()), files.path(kJson)));
  } else if (json::find(config, "chat_template") != nullptr) {
    TRY(loaded.source, template_member(config, files.path("tokenizer_config.json")));
  } else {
    return fail(
        ErrorCode::kNotFound,
        "{} has no chat template (chat_template.jinja, chat_template.json, or chat_template "
        "in tokenizer_config.json)",
        files.place());
  }
  return loaded;
}

}  // namespace saccade
