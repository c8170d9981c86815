#include "text/templates/system_messages.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <utility>

#include "text/unicode/python_text.h"

namespace saccade {
namespace {

constexpr std::string_view kSystemProbe = "saccade probes";
constexpr std::string_view kStranger = "saccadestranger";  // a role that no template knows
constexpr std::string_view kBetween = "\n\n";

json::object plain_message(std::string_view role, std::string_view text) {
  return {{"role", json::string(role.data(), role.size())},
          {"content", json::string(text.data(), text.size())}};
}

std::optional<std::string> rendered(const ChatTemplate& chat_template, const ContentFormat& format,
                                    const json::object& variables, json::array messages) {
  ChatTemplateOptions options;
  options.variables = variables;
  if (!format.arrange(messages, [](std::string_view, int) { return std::string(); })) return {};
  auto text = chat_template.render(messages, options);
  if (!text) return {};
  return *std::move(text);
}

bool shows_text(const RoleForms& forms) {
  return forms.as_string == Shown::kText || forms.as_parts == Shown::kText;
}

bool of_text_alone(const json::object& message) {
  const json::value* content = json::find(message, "content");
  if (content == nullptr) return false;
  if (content->is_string()) return true;
  return content->is_array() && std::ranges::all_of(content->get_array(), [](const auto& part) {
           return part.is_object() && part.get_object().contains("text");
         });
}

bool is_instruction(const json::object& message) {
  const std::string_view role = message.at("role").get_string();
  return role == "system" || role == "developer";
}

json::array parts_of(json::value& content) {
  if (content.is_array()) return std::move(content.get_array());
  return {json::object{{"type", "text"}, {"text", std::move(content)}}};
}

// Puts `more` behind `content`; texts stay one text.
void append(json::value& content, json::value& more) {
  if (content.is_string() && more.is_string()) {
    content.get_string().append(kBetween);
    content.get_string().append(more.get_string());
    return;
  }
  json::array all = parts_of(content);
  if (!all.empty()) all.back().get_object()["text"].get_string().append(kBetween);
  for (json::value& part : parts_of(more)) all.push_back(std::move(part));
  content = std::move(all);
}

}  // namespace

SystemMessages SystemMessages::of(const ChatTemplate& chat_template, const ContentFormat& format,
                                  const json::object& variables) {
  const auto shown = [&](json::array messages) {
    return rendered(chat_template, format, variables, std::move(messages));
  };
  const auto has_probe = [](const std::optional<std::string>& text) {
    return text && text->find(kSystemProbe) != std::string::npos;
  };
  const auto places_of = [&](std::string_view role) {
    const bool behind_a_turn =
        has_probe(shown({plain_message("user", "b"), plain_message("assistant", "c"),
                         plain_message(role, kSystemProbe), plain_message("user", "d")})) &&
        has_probe(shown({plain_message("system", "a"), plain_message("user", "b"),
                         plain_message("assistant", "c"), plain_message(role, kSystemProbe),
                         plain_message("user", "d")}));
    return Places{shows_text(format.forms(role)),
                  has_probe(shown({plain_message("system", "a"), plain_message(role, kSystemProbe),
                                   plain_message("user", "b")})),
                  behind_a_turn};
  };
  SystemMessages made;
  // Nothing is better than where they are.
  const bool takes_system = shows_text(format.forms("system"));
  if (takes_system) made.system_ = places_of("system");
  // A template that prints whatever role there is has not been taught this one.
  const auto developer =
      shown({plain_message("developer", kSystemProbe), plain_message("user", "a")});
  const auto stranger = shown({plain_message(kStranger, kSystemProbe), plain_message("user", "a")});
  const bool as_any =
      developer && stranger && jinja::replace(*stranger, kStranger, "developer", -1) == *developer;
  if (!as_any) made.developer_ = places_of("developer");
  return made;
}

void SystemMessages::arrange(json::array& messages) const {
  json::array kept;
  bool at_front = true;
  for (json::value& each : messages) {
    json::object& given = each.get_object();
    json::string& role = given.at("role").get_string();
    const bool instructs = role == "system" || role == "developer";
    const Places& places = role == "developer" ? developer_ : system_;
    const bool shown = !instructs || (kept.empty() ? places.first
                                      : at_front   ? places.second
                                                   : places.later);
    at_front = at_front && instructs;
    if (!shown && !developer_.first) role = "system";
    if (shown || !of_text_alone(given)) {
      kept.push_back(std::move(each));
      continue;
    }
    const bool has_first = !kept.empty() && is_instruction(kept.front().get_object()) &&
                           of_text_alone(kept.front().get_object());
    if (!has_first) {
      // Whoever comes first may be anyone that the template shows there.
      if (!places.first) role = "system";
      kept.insert(kept.begin(), std::move(each));
    } else {
      append(kept.front().get_object()["content"], given["content"]);
    }
  }
  messages = std::move(kept);
}

}  // namespace saccade
