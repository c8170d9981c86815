// `saccade model pull`: a checkpoint from the hub into the Hugging Face cache.
#include "hub/model_pull.h"

#include <algorithm>
#include <memory>
#include <string>

#include "apps/model/model_commands.h"
#include "apps/model/pull_report.h"

namespace saccade {
namespace {

struct PullFlags {
  std::string name;
  hub::PullSettings settings = hub::pull_settings_from_environment();
};

Result<void> pull(PullFlags& flags) {
  hub::PullSettings& settings = flags.settings;
  const std::size_t colon = std::min(flags.name.find(':'), flags.name.size());
  settings.repository = flags.name.substr(0, colon);
  settings.gguf.model = flags.name.substr(std::min(colon + 1, flags.name.size()));
  PullReport report;
  settings.progress = [&](const hub::PullProgress& progress) { report.show(progress); };
  const auto directory = hub::pull_model(settings);
  report.end();
  if (!directory) return tl::unexpected<Error>(directory.error());
  std::printf("%s\n", directory->c_str());
  return {};
}

}  // namespace

void add_model_pull(CLI::App& model, int& exit_code) {
  auto flags = std::make_shared<PullFlags>();
  CLI::App* const command = model.add_subcommand(
      "pull",
      "Download a checkpoint into the Hugging Face cache (HF_HOME, HF_TOKEN, HF_ENDPOINT); what is "
      "there already is kept, what broke off goes on");
  command
      ->add_option("model", flags->name,
                   "ORG/NAME, or ORG/NAME:Q4_K_M: the one model in GGUF whose name has that, or is "
                   "it, and its projector")
      ->required();
  command->add_option("--mmproj", flags->settings.gguf.projector,
                      "that projector, instead of the one that has lost least (docs/gguf.md)");
  command->add_flag("--no-mmproj", flags->settings.gguf.text_alone, "no projector")
      ->excludes("--mmproj");
  command->add_option("--revision", flags->settings.revision, "branch, tag or commit")
      ->capture_default_str();
  command->add_option("--cache-dir", flags->settings.cache_directory,
                      "folder to download to, in the cache's layout, instead of the cache");
  command->callback([flags, &exit_code] { exit_code = report(pull(*flags)); });
}

}  // namespace saccade
