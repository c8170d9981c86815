// saccade completion, saccade man: what an installation has beside the program.
#include <cstdio>
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/manual/manual_pages.h"

namespace saccade {

void add_manual(CLI::App& app, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* scripts = app.add_subcommand("completion", "print a completion script for a shell");
  scripts->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  scripts->callback([&app, shell, &exit_code] {
    const auto text = completion(app, *shell);
    std::fputs(text ? text->c_str() : text.error().message.c_str(), text ? stdout : stderr);
    exit_code = text ? 0 : 2;
  });
  auto folder = std::make_shared<std::string>();
  CLI::App* pages = app.add_subcommand("man", "write the manual pages into a folder");
  pages->add_option("folder", *folder, "folder; made where it is not there")->required();
  pages->callback([&app, folder, &exit_code] {
    const auto done = write_manual_pages(app, *folder);
    if (!done) std::fprintf(stderr, "saccade man: %s\n", done.error().message.c_str());
    exit_code = done ? 0 : 1;
  });
}

}  // namespace saccade
