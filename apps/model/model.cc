// `saccade model`: checkpoints on disk.
#include "apps/commands.h"
#include "apps/model/model_commands.h"

namespace saccade {

void add_model(CLI::App& app, int& exit_code) {
  CLI::App* const model =
      app.add_subcommand("model", "Download, inspect, compare, quantise and make checkpoints");
  model->require_subcommand(1);
  add_model_pull(*model, exit_code);
  add_model_inspect(*model, exit_code);
  add_model_compare(*model, exit_code);
  add_model_make_dummy(*model, exit_code);
  add_model_quantize(*model, exit_code);
  add_model_memory(*model, exit_code);
}

}  // namespace saccade
