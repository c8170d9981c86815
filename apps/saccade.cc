// saccade: one program, one file per subcommand.
#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app{"Serves vision-language models over the OpenAI API, and measures any server that speaks it."};
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
