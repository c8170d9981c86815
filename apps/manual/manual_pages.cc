#include "apps/manual/manual_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "apps/flags/serve_environment.h"

namespace saccade {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!each->get_group().empty()) shown.push_back(each);
  return shown;
}

// Text as roff has it: dashes that can be copied, no line that is taken for a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((out.empty() || out.back() == '\n') && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string path_of(const CLI::App& command, const char* between) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name()
                           : path_of(*parent, between) + between + command.get_name();
}

// "\-\-max\-num\-seqs N" and its other names.
std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames())
    names += (names.empty() ? "" : ", ") + ("\\-" + roff(name));
  for (const std::string& name : option.get_lnames())
    names += (names.empty() ? "" : ", ") + ("\\-\\-" + roff(name));
  if (names.empty()) return "\\fI" + roff(option.get_name()) + "\\fP";
  names = "\\fB" + names + "\\fP";
  if (option.get_expected_max() > 0 && option.get_items_expected_max() > 0)
    names += fmt::format(" \\fI{}\\fP{}", roff(option.get_type_name()),
                         option.get_expected_max() > 1 ? " ..." : "");
  return names;
}

void add_options(const CLI::App& command, std::string& page) {
  page += ".SH OPTIONS\n";
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    page += ".TP\n" + names_of(*option) + "\n";
    std::string text = option->get_description();
    if (!option->get_default_str().empty())
      text += fmt::format("{}(default: {})", text.empty() ? "" : " ", option->get_default_str());
    page += (text.empty() ? std::string("\\&") : roff(text)) + "\n";
  }
}

void write_one(const CLI::App& root, const CLI::App& command, const std::string& folder,
               bool& written) {
  std::ofstream file(folder + "/" + page_name(command) + ".1");
  file << manual_page(root, command);
  file.close();
  written = written && static_cast<bool>(file);
  for (const CLI::App* each : commands_of(command)) write_one(root, *each, folder, written);
}

}  // namespace

std::string page_name(const CLI::App& command) { return path_of(command, "-"); }

std::string manual_page(const CLI::App& root, const CLI::App& command) {
  const std::string name = page_name(command);
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  });
  std::string page =
      fmt::format(".TH \"{}\" 1 \"\" \"saccade {}\" \"User Commands\"\n", title, SACCADE_VERSION);
  std::string what = command.get_description();
  while (what.ends_with('.')) what.pop_back();
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(what));
  const auto below = commands_of(command);
  page += fmt::format(".SH SYNOPSIS\n\\fB{}\\fP {}[\\fIOPTION\\fP]...\n",
                      roff(path_of(command, " ")), below.empty() ? "" : "\\fICOMMAND\\fP ");
  if (!below.empty()) page += ".SH COMMANDS\n";
  for (const CLI::App* each : below)
    page +=
        fmt::format(".TP\n\\fB{}\\fP\n{}\n", roff(each->get_name()), roff(each->get_description()));
  add_options(command, page);
  if (command.get_name() == "serve" && command.get_parent() == &root) {
    page += ".SH ENVIRONMENT\n";
    for (const EnvironmentVariable& variable : environment_variables())
      if (variable.works)
        page += fmt::format(".TP\n\\fB{}\\fP\n{}\n", roff(variable.name), roff(variable.sentence));
  }
  std::string also;
  if (command.get_parent() != nullptr)
    also += fmt::format("\\fB{}\\fP(1)", roff(page_name(*command.get_parent())));
  for (const CLI::App* each : below)
    also += fmt::format("{}\\fB{}\\fP(1)", also.empty() ? "" : ",\n", roff(page_name(*each)));
  if (!also.empty()) page += ".SH SEE ALSO\n" + also + "\n";
  return page;
}

Result<void> write_manual_pages(const CLI::App& root, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  bool written = !error;
  if (written) write_one(root, root, folder, written);
  if (!written)
    return fail(ErrorCode::kInvalid, "{}: manual pages cannot be written there", folder);
  return {};
}

}  // namespace saccade
