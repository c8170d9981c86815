// saccade: one program, one file per subcommand.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "apps/build_facts.h"
#include "apps/cluster_commands.h"
#include "apps/commands.h"
#include "apps/flags/argument_spelling.h"
#include "apps/flags/flag_hint.h"
#include "apps/manual/help_formatter.h"
#include "base/threads/end_signals.h"

namespace {

// A flag given again replaces its value, as argparse has it: scripts append "$@" to their defaults.
void let_the_last_value_win(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() == 1)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  for (CLI::App* command : app.get_subcommands(nullptr)) let_the_last_value_win(*command);
}

// A range's bounds hold no NaN off: it is neither below nor above them.
void take_numbers_alone(CLI::App& app) {
  const CLI::Validator number(
      [](const std::string& text) {
        char* end = nullptr;
        const bool none = std::isnan(std::strtod(text.c_str(), &end)) && *end == '\0';
        return none ? "Value " + text + " is no number" : std::string();
      },
      "");
  // CLI11 lets numbers come round: -5 is 2^64 - 5, and 2^64 is 2^64 - 1. Before units are read.
  const CLI::Validator natural(
      [](std::string& text) {
        std::uint64_t value = 0;
        const char* const last = text.data() + text.size();
        const bool none = text.starts_with('-') || std::from_chars(text.data(), last, value).ec ==
                                                       std::errc::result_out_of_range;
        return none ? "Value " + text + " is no number from 0 to 2^64 - 1" : std::string();
      },
      "");
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("FLOAT")) option->check(number);
    if (type.starts_with("UINT")) option->transform(natural);
  }
  for (CLI::App* command : app.get_subcommands(nullptr)) take_numbers_alone(*command);
}

// What is opened first would otherwise take the place of a closed one, and get what is printed.
// Opened the wrong way round, so that using it is an error still.
void fill_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // the lowest free one
}

// A full disk is no success: 1 where standard output did not take everything.
int written_out(int exit_code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  std::fprintf(stderr, "saccade: standard output: %s\n",
               errno != 0 ? std::strerror(errno) : "not everything could be written");
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace

int main(int argc, char** argv) try {
  saccade::hear_end_signals();
  fill_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of files' sizes (ulimit -f) is an error of the write
  CLI::App app{
      "Serves vision-language models over the OpenAI API, and measures any server that speaks it."};
  app.name("saccade");
  app.formatter(std::make_shared<saccade::HelpFormatter>());
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
  take_numbers_alone(app);
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
    return written_out(wrong ? 2 : 0);
  }
  return written_out(exit_code);
} catch (const std::exception& error) {
  std::fprintf(stderr, "saccade: %s\n", error.what());
  return 1;
}
