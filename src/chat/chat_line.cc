#include "chat/chat_line.h"

#include <fmt/format.h>

namespace saccade::chat {
namespace {

struct Command {
  std::string_view name;
  std::string_view argument;
  std::string_view help;
};

constexpr Command kCommands[] = {
    {"image", "FILE|URL", "goes with the next question; several may"},
    {"drop", "", "takes the images that wait away"},
    {"system", "[TEXT]", "the system message; none without a text"},
    {"set", "[NAME [VALUE]]",
     "a field of the request, as temperature 0; taken away without a value"},
    {"model", "[NAME]", "the models there are, or the one to ask"},
    {"retry", "", "asks the last question again"},
    {"undo", "", "forgets the last question and its answer"},
    {"clear", "", "begins anew"},
    {"save", "FILE", "writes the conversation as the JSON of a request"},
    {"help", "", "these lines"},
    {"quit", "", "leaves, as Ctrl-D does"},
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

Result<ChatLine> parse_chat_line(std::string_view line) {
  std::string_view text = trimmed(line);
  if (!text.starts_with('/')) return ChatLine{{}, std::string(text)};
  text.remove_prefix(1);
  if (text.starts_with('/')) return ChatLine{{}, std::string(text)};
  const std::size_t end = text.find_first_of(" \t\n");
  const std::string_view name = text.substr(0, end);
  const std::string_view rest =
      end == std::string_view::npos ? std::string_view() : trimmed(text.substr(end));
  std::string alike;
  for (const Command& command : kCommands) {
    if (command.name == name) return ChatLine{std::string(name), std::string(rest)};
    if (!name.empty() && command.name.front() == name.front())
      alike += fmt::format("{}/{}", alike.empty() ? "" : ", ", command.name);
  }
  return fail(ErrorCode::kInvalid, "there is no /{}: {} (a question may begin with //)", name,
              alike.empty() ? "/help lists what there is" : "is it " + alike + "?");
}

std::string command_help() {
  std::string text;
  for (const Command& command : kCommands)
    text += fmt::format("  {:<24}{}\n", fmt::format("/{} {}", command.name, command.argument),
                        command.help);
  return text +
         "  Ctrl-C stops an answer, Ctrl-D leaves; a line that ends in \\ goes on in the next\n";
}

}  // namespace saccade::chat
