#include "text/content_format.h"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace saccade {
namespace {

constexpr std::string_view kProbe = "saccade probes";

// A template that prints the list itself shows the name of its member too.
bool shows_text(const ChatTemplate& chat_template, const json::object& variables,
                json::value content) {
  json::object message;
  message["role"] = "user";
  message["content"] = std::move(content);
  json::array messages;
  messages.push_back(std::move(message));
  ChatTemplateOptions options;
  options.variables = variables;
  const auto rendered = chat_template.render(messages, options);
  return rendered && rendered->find(kProbe) != std::string::npos &&
         rendered->find("'type'") == std::string::npos;
}

}  // namespace

bool takes_content_parts(const ChatTemplate& chat_template, const json::object& variables) {
  const json::value text = json::string(kProbe.data(), kProbe.size());
  json::object part;
  part["type"] = "text";
  part["text"] = text;
  return shows_text(chat_template, variables, json::array{std::move(part)}) ||
         !shows_text(chat_template, variables, text);
}

}  // namespace saccade
