// `saccade model pull`: a checkpoint from the hub into the Hugging Face cache.
#include "apps/model_commands.h"

namespace saccade {

void add_model_pull(CLI::App&, int&) {}

}  // namespace saccade
