// saccade: one program, one file per subcommand.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "apps/argument_spelling.h"
#include "apps/build_facts.h"
#include "apps/cluster_commands.h"
#include "apps/commands.h"
#include "apps/flag_hint.h"
#include "base/end_signals.h"

namespace {

// A flag given again replaces its value, as argparse has it: scripts append "$@" to their defaults.
void let_the_last_value_win(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() == 1)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  for (CLI::App* command : app.get_subcommands(nullptr)) let_the_last_value_win(*command);
}

}  // namespace

int main(int argc, char** argv) try {
  saccade::hear_end_signals();
  CLI::App app{
      "Serves vision-language models over the OpenAI API, and measures any server that speaks it."};
  app.name("saccade");
  app.set_version_flag("--version", saccade::version_text());
  app.require_subcommand(1);
  int exit_code = 0;
  saccade::add_serve(app, exit_code);
  saccade::add_batch(app, exit_code);
  saccade::add_profile(app, exit_code);
  saccade::add_proxy(app, exit_code);
  saccade::add_simulate(app, exit_code);
  saccade::add_model(app, exit_code);
  saccade::add_bench(app, exit_code);
  saccade::add_chat(app, exit_code);
  saccade::add_doctor(app, exit_code);
  saccade::add_fit(app, exit_code);
  saccade::add_manual(app, exit_code);
  let_the_last_value_win(app);
  auto spelled = saccade::asked_for_help(app, {argv + 1, argv + argc});
  if (spelled) spelled = saccade::spelled_out(*std::move(spelled));
  if (!spelled) {
    std::fprintf(stderr, "%s\n", spelled.error().message.c_str());
    return 2;
  }
  std::vector<std::string> arguments = *std::move(spelled);
  if (arguments.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::vector<std::string>(arguments));
  } catch (const CLI::ParseError& error) {
    // CLI11 reads llama-server's "-hf" as "-h" with more behind it: nobody asked for help there.
    const std::string hints = saccade::flag_hints(app, arguments);
    const auto asks_for_help = [](const std::string& word) {
      return word == "-h" || word == "--help";
    };
    if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr && !hints.empty() &&
        std::ranges::none_of(arguments, asks_for_help)) {
      std::fputs(hints.c_str(), stderr);
      return 2;
    }
    const bool wrong = app.exit(error) != 0;  // --help is no error
    if (wrong) std::fputs(hints.c_str(), stderr);
    return wrong ? 2 : 0;
  }
  return exit_code;
} catch (const std::exception& error) {
  std::fprintf(stderr, "saccade: %s\n", error.what());
  return 1;
}
