#include "apps/manual/help_formatter.h"

namespace saccade {

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  const std::string name = CLI::Formatter::make_option_name(option, is_positional);
  return CLI::detail::find_and_replace(name, "{false}", "");
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  std::string text = CLI::Formatter::make_option_opts(option);
  const std::string shown = "=" + option->get_default_str();
  if (shown == "=") return text;
  if (const std::size_t at = text.rfind(shown); at != std::string::npos)
    text.erase(at, shown.size());
  return text;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  const std::string text = option->get_description();
  const std::string value = option->get_default_str();
  return value.empty() ? text : text + " (default: " + value + ")";
}

}  // namespace saccade
