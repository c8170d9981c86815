#include "apps/flags/flag_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "apps/flags/llama_server_flags.h"

namespace saccade {
namespace {

// Insertions, deletions and replacements of one character.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

// The innermost subcommand on the line.
const CLI::App& chosen(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : chosen(*subcommands.back());
}

// The subcommand of `app` that has the name or alias; null where none has.
const CLI::App* command_of(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands(nullptr))
    if (command->check_name(name)) return command;
  return nullptr;
}

std::string names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string no_command(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    const std::string& name = command->get_name();
    if (name.starts_with(word) || word.starts_with(name) || edit_distance(word, name) <= 2)
      return fmt::format("{}: did you mean {}?", word, name);
  }
  return fmt::format("there is no command {}; there are {}", word, names_of_commands(app));
}

// Where no command is named: the one that is closest to the first word, or that flags need one.
std::string command_hint(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (!app.get_subcommands().empty() || arguments.empty()) return "";
  const std::string& word = arguments.back();  // they come in reverse
  if (word.starts_with("-")) return "a command comes first, as in `saccade serve DIR`\n";
  return no_command(app, word) + "\n";
}

}  // namespace

Result<std::vector<std::string>> asked_for_help(const CLI::App& app,
                                                std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  const CLI::App* of = &app;
  for (const std::string& word : arguments) {
    if (word.starts_with("-")) break;
    const CLI::App* const command = command_of(*of, word);
    if (command == nullptr)
      return fail(ErrorCode::kInvalid, "{}{}", of == &app ? "" : of->get_name() + ": ",
                  no_command(*of, word));
    of = command;
  }
  arguments.emplace_back("--help");
  return arguments;
}

std::string flag_hints(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const CLI::Option* option : chosen(app).get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  const bool serves = &chosen(app) == &app || chosen(app).get_name() == "serve";
  std::string hints = command_hint(app, arguments);
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (!flag.starts_with("-") || std::ranges::find(names, flag) != names.end()) continue;
    if (const auto instead = instead_of_llama_server_flag(flag); serves && !instead.empty()) {
      hints += fmt::format("{} (llama-server): {}\n", flag, instead);
      continue;
    }
    if (!flag.starts_with("--") || flag.size() < 4) continue;
    const std::string* closest = nullptr;
    std::size_t least = std::max<std::size_t>(2, flag.size() / 4) + 1;  // beyond it: not meant
    for (const std::string& name : names) {
      const bool longer = name.starts_with(flag) || flag.starts_with(name);
      const std::size_t distance = longer ? 1 : edit_distance(flag, name);
      if (distance >= least) continue;
      least = distance;
      closest = &name;
    }
    if (closest != nullptr) hints += fmt::format("{}: did you mean {}?\n", flag, *closest);
  }
  return hints;
}

}  // namespace saccade
