#include "text/templates/content_format.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>

namespace saccade {
namespace {

// Of all probes of a template together, some tenths of a second: what is published takes a tenth.
constexpr std::int64_t kProbeSteps = 4'000'000;
constexpr std::string_view kProbe = "saccade probes";
constexpr std::string_view kCall = "call00001";

enum class Form { kString, kParts };

json::value content_of(std::string_view text, Form form) {
  json::value as_string = json::string(text.data(), text.size());
  if (form == Form::kString) return as_string;
  json::object part;
  part["type"] = "text";
  part["text"] = std::move(as_string);
  return json::array{std::move(part)};
}

json::object message(std::string_view role, json::value text) {
  json::object made;
  made["role"] = json::string(role.data(), role.size());
  made["content"] = std::move(text);
  return made;
}

json::object call_of_probe() {
  json::object function;
  function["name"] = "probe";
  function["arguments"] = json::object{{"at", 1}};
  json::object call;
  call["id"] = json::string(kCall.data(), kCall.size());
  call["type"] = "function";
  call["function"] = std::move(function);
  return call;
}

// The shortest conversation in which `role` may speak.
json::array conversation(std::string_view role, Form form, Form others) {
  const auto other = [&](std::string_view name, std::string_view text) {
    return message(name, content_of(text, others));
  };
  json::object probe = message(role, content_of(kProbe, form));
  if (role == "user") return {std::move(probe)};
  if (role == "assistant") return {other("user", "a"), std::move(probe), other("user", "b")};
  if (role == "tool") {
    json::object caller = other("assistant", "");
    caller["tool_calls"] = json::array{call_of_probe()};
    probe["name"] = "probe";
    probe["tool_call_id"] = json::string(kCall.data(), kCall.size());
    return {other("user", "a"), std::move(caller), std::move(probe)};
  }
  return {std::move(probe), other("user", "a")};
}

json::array tools_of_probe() {
  json::object function;
  function["name"] = "probe";
  function["description"] = "probe";
  function["parameters"] = json::object{{"type", "object"}, {"properties", json::object()}};
  json::object tool;
  tool["type"] = "function";
  tool["function"] = std::move(function);
  return {std::move(tool)};
}

// A template that prints the list itself shows the member's name before its text.
bool has_probe(std::string_view rendered) {
  for (std::size_t at = rendered.find(kProbe); at != std::string_view::npos;
       at = rendered.find(kProbe, at + 1)) {
    const std::string_view before = rendered.substr(0, at);
    if (!before.ends_with("'text': '") && !before.ends_with(R"("text": ")") &&
        !before.ends_with(R"("text":")"))
      return true;
  }
  return false;
}

// The best that a template makes of the probe among neighbours of either form.
Shown shown(const ChatTemplate& chat_template, ChatTemplateOptions& options, std::string_view role,
            Form form, const json::array* tools) {
  Shown best = Shown::kRefused;
  options.tools = tools;
  for (const Form others : {Form::kString, Form::kParts}) {
    const auto rendered = chat_template.render(conversation(role, form, others), options);
    if (!rendered) continue;
    if (has_probe(*rendered)) return Shown::kText;
    best = Shown::kNothing;
  }
  return best;
}

// The same in both forms. Where the template makes nothing of a role without tools, or refuses it
// with them, the other way is what is known.
RoleForms forms_of(const ChatTemplate& chat_template, ChatTemplateOptions& options,
                   std::string_view role, bool with_tools) {
  const json::array tools = tools_of_probe();
  const auto of_form = [&](Form form) {
    const Shown without = shown(chat_template, options, role, form, nullptr);
    if (without == Shown::kText && !with_tools) return without;
    const Shown with = shown(chat_template, options, role, form, &tools);
    return with == Shown::kRefused ? without : with;
  };
  return {of_form(Form::kString), of_form(Form::kParts)};
}

std::string joined(const json::array& parts, const ContentFormat::Placeholder& placeholder,
                   int image) {
  std::string text;
  for (const json::value& part : parts) {
    const json::value* words = json::find(part.get_object(), "text");
    if (words != nullptr) {
      text += std::string_view(words->get_string());
    } else {
      const std::string_view type = part.get_object().at("type").get_string();
      text += placeholder(type, image);
      image += type == "image" ? 1 : 0;
    }
  }
  return text;
}

int images_in(const json::array& parts) {
  return static_cast<int>(std::ranges::count_if(
      parts, [](const json::value& part) { return part.get_object().at("type") == "image"; }));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// Its texts, in order; none for content that is null.
std::vector<std::string_view> texts_of(const json::value& content) {
  if (content.is_string()) return {std::string_view(content.get_string())};
  std::vector<std::string_view> texts;
  if (!content.is_array()) return texts;
  for (const json::value& part : content.get_array()) {
    const json::value* text = json::find(part.get_object(), "text");
    if (text != nullptr) texts.push_back(std::string_view(text->get_string()));
  }
  return texts;
}

std::string mark_of(std::size_t message) { return fmt::format("{} {};", kProbe, message); }

// The first text of `content` that says something becomes `mark`. False: there is none.
bool mark_text(json::value& content, std::string_view mark) {
  const auto replace = [&](json::value* text) {
    if (text == nullptr || !text->is_string() || trimmed(text->get_string()).empty()) return false;
    *text = json::string(mark.data(), mark.size());
    return true;
  };
  if (!content.is_array()) return replace(&content);
  return std::ranges::any_of(content.get_array(), [&](json::value& part) {
    return part.is_object() && replace(part.get_object().if_contains("text"));
  });
}

tl::unexpected<Error> dropped(std::string_view role) {
  return fail(Error{ErrorCode::kInvalid,
                    fmt::format("the chat template leaves out the text of a message whose role is "
                                "'{}', as a string and as parts",
                                role),
                    "messages"});
}

}  // namespace

bool RoleForms::drops_text() const {
  return !unknown() && as_string != Shown::kText && as_parts != Shown::kText;
}

Result<ContentFormat> ContentFormat::of(const ChatTemplate& chat_template,
                                        const json::object& variables) {
  std::int64_t steps = kProbeSteps;
  ChatTemplateOptions options;
  options.variables = variables;
  options.steps_left = &steps;
  ContentFormat format;
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    format.forms_[i] = forms_of(chat_template, options, kRoles[i], false);
    format.forms_with_tools_[i] = forms_of(chat_template, options, kRoles[i], true);
    if (steps <= 0)
      return fail(ErrorCode::kInvalid,
                  "chat template: it takes over {} steps for conversations of a few words",
                  kProbeSteps);
  }
  return format;
}

const RoleForms& ContentFormat::forms(std::string_view role, bool tools) const {
  static const RoleForms kUnknown;
  const auto found = std::ranges::find(kRoles, role);
  if (found == kRoles.end()) return kUnknown;
  return (tools ? forms_with_tools_ : forms_)[static_cast<std::size_t>(found - kRoles.begin())];
}

Result<void> ContentFormat::arrange(json::array& messages, const Placeholder& placeholder,
                                    bool tools) const {
  int images = 0;  // of the messages before
  for (json::value& each : messages) {
    json::value* content = each.get_object().if_contains("content");
    if (content == nullptr || content->is_null()) continue;
    const std::string_view role = each.get_object().at("role").get_string();
    const RoleForms& role_forms = forms(role, tools);
    const bool has_text =
        std::ranges::any_of(texts_of(*content), [](auto text) { return !trimmed(text).empty(); });
    if (role_forms.drops_text() && has_text) return dropped(role);
    if (content->is_string() && role_forms.as_string != Shown::kText &&
        role_forms.as_parts == Shown::kText) {
      *content = content_of(content->get_string(), Form::kParts);
    } else if (content->is_array() && role_forms.as_parts != Shown::kText &&
               role_forms.as_string == Shown::kText) {
      const std::string text = joined(content->get_array(), placeholder, images);
      images += images_in(content->get_array());
      *content = json::string(text.data(), text.size());
    } else if (content->is_array()) {
      images += images_in(content->get_array());
    }
  }
  return {};
}

Result<void> ContentFormat::check(const json::array& messages, std::string_view rendered,
                                  const Render& render) const {
  json::array marked = messages;
  std::vector<std::size_t> own;  // messages of roles that a client made up
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const json::object& message = messages[i].get_object();
    const std::string_view role = message.at("role").get_string();
    const json::value* content = json::find(message, "content");
    if (content == nullptr || !forms(role).unknown()) continue;
    for (const std::string_view text : texts_of(*content))
      if (rendered.find(trimmed(text)) == std::string_view::npos) return dropped(role);
    if (std::ranges::find(kRoles, role) != kRoles.end()) continue;
    if (mark_text(marked[i].get_object()["content"], mark_of(i))) own.push_back(i);
  }
  if (own.empty()) return {};
  const auto shown_marks = render(marked);
  if (!shown_marks) return {};  // a template that reads these texts: nothing is known
  for (const std::size_t i : own) {
    if (shown_marks->find(mark_of(i)) == std::string::npos)
      return dropped(messages[i].get_object().at("role").get_string());
  }
  return {};
}

}  // namespace saccade
