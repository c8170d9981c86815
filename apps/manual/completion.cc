// Scripts that complete commands, flags, and the values of flags that have a fixed set of them.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "apps/manual/manual_pages.h"

namespace saccade {
namespace {

struct Word {
  std::string name;         // "serve", "--port"
  std::string description;  // one line
  std::vector<std::string> values;
  bool takes_value = false;
};

// A command and what may follow it.
struct Place {
  std::vector<std::string> path;  // "saccade", "bench", "serve"
  std::vector<Word> commands;
  std::vector<Word> flags;
};

// The words of "TEXT:{a,b}", which is how a set of values describes itself.
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  std::vector<std::string> values;
  if (open == std::string::npos || close == std::string::npos) return values;
  for (std::size_t at = open + 1; at < close;) {
    const std::size_t end = std::min(type.find(',', at), close);
    values.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return values;
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

void collect(const CLI::App& command, std::vector<std::string> path, std::vector<Place>& places) {
  path.push_back(command.get_name());
  Place place;
  place.path = path;
  const auto below = command.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* each : below) {
    if (!each->get_group().empty())
      place.commands.push_back({each->get_name(), one_line(each->get_description()), {}, false});
  }
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames())
      place.flags.push_back({"--" + name, one_line(option->get_description()), values_of(*option),
                             option->get_items_expected_max() > 0});
  }
  places.push_back(std::move(place));
  for (const CLI::App* each : below)
    if (!each->get_group().empty()) collect(*each, path, places);
}

std::string joined_words(const std::vector<std::string>& words, const char* between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::string names(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) text += (text.empty() ? "" : " ") + word.name;
  return text;
}

// The part that bash and zsh have in common: which command the words so far have come to.
std::string cases_of_paths(const std::vector<Place>& places) {
  std::string text;
  for (const Place& place : places) {
    for (const Word& command : place.commands)
      text += fmt::format("      '{0} {1}') at='{0} {1}' ;;\n", joined_words(place.path, " "),
                          command.name);
  }
  return text;
}

template <typename Reply>
std::string cases_of_values(const std::vector<Place>& places, Reply reply) {
  std::string text;
  for (const Place& place : places) {
    for (const Word& flag : place.flags) {
      if (!flag.values.empty())
        text += fmt::format("    '{} {}') {}; return ;;\n", joined_words(place.path, " "),
                            flag.name, reply(joined_words(flag.values, " ")));
    }
  }
  return text;
}

std::string bash(const std::vector<Place>& places) {
  std::string text =
      "# bash completion for saccade\n"
      "_saccade() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=saccade word "
      "flags= "
      "commands=\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$at $word\" in\n" +
      cases_of_paths(places) + "    esac\n  done\n  COMPREPLY=()\n  case \"$at $prev\" in\n" +
      cases_of_values(places,
                      [](const std::string& values) {
                        return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))", values);
                      }) +
      "  esac\n  case \"$at\" in\n";
  for (const Place& place : places)
    text += fmt::format("    '{}') flags='{}' commands='{}' ;;\n", joined_words(place.path, " "),
                        names(place.flags), names(place.commands));
  return text +
         "  esac\n"
         "  if [[ $cur == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
         "  elif [[ -n $commands ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -o default -F _saccade saccade\n";
}

std::string zsh(const std::vector<Place>& places) {
  std::string text =
      "#compdef saccade\n"
      "_saccade() {\n"
      "  local at=saccade word flags commands\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    case \"$at $word\" in\n" +
      cases_of_paths(places) + "    esac\n  done\n  case \"$at ${words[CURRENT-1]}\" in\n" +
      cases_of_values(places, [](const std::string& values) { return "compadd -- " + values; }) +
      "  esac\n  case \"$at\" in\n";
  for (const Place& place : places)
    text += fmt::format("    '{}') flags='{}' commands='{}' ;;\n", joined_words(place.path, " "),
                        names(place.flags), names(place.commands));
  return text +
         "  esac\n"
         "  if [[ $PREFIX == -* ]]; then\n"
         "    compadd -- ${=flags}\n"
         "  elif [[ -n $commands ]]; then\n"
         "    compadd -- ${=commands}\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "_saccade \"$@\"\n";
}

// In fish's single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish(const std::vector<Place>& places) {
  std::string text =
      "# fish completion for saccade\n"
      "# True where the words so far have come to the command that is named.\n"
      "function __saccade_at\n"
      "  set -l at saccade\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$at $word\"\n";
  for (const Place& place : places) {
    for (const Word& command : place.commands)
      text += fmt::format("      case '{0} {1}'\n        set at '{0} {1}'\n",
                          joined_words(place.path, " "), command.name);
  }
  text += "    end\n  end\n  test \"$at\" = \"$argv\"\nend\n";
  for (const Place& place : places) {
    const std::string where = fmt::format("complete -c saccade -n {}",
                                          quoted("__saccade_at " + joined_words(place.path, " ")));
    for (const Word& command : place.commands)
      text += fmt::format("{} -f -a {} -d {}\n", where, command.name, quoted(command.description));
    for (const Word& flag : place.flags) {
      text += fmt::format("{} -l {}", where, flag.name.substr(2));
      if (flag.takes_value) text += " -r";
      if (!flag.values.empty()) text += " -f -a " + quoted(joined_words(flag.values, " "));
      if (!flag.description.empty()) text += " -d " + quoted(flag.description);
      text += "\n";
    }
  }
  return text;
}

}  // namespace

Result<std::string> completion(const CLI::App& root, std::string_view shell) {
  std::vector<Place> places;
  collect(root, {}, places);
  if (shell == "bash") return bash(places);
  if (shell == "zsh") return zsh(places);
  if (shell == "fish") return fish(places);
  return fail(ErrorCode::kInvalid, "'{}': bash, zsh and fish are known", shell);
}

}  // namespace saccade
