// `saccade model pull`: a checkpoint from the hub into the Hugging Face cache.
#include "hub/model_pull.h"

#include <memory>

#include "apps/model_commands.h"
#include "apps/pull_report.h"

namespace saccade {
namespace {

Result<void> pull(hub::PullSettings& settings) {
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
  auto settings = std::make_shared<hub::PullSettings>(hub::pull_settings_from_environment());
  CLI::App* const command = model.add_subcommand(
      "pull",
      "Download a checkpoint into the Hugging Face cache (HF_HOME, HF_TOKEN, HF_ENDPOINT); what is "
      "there already is kept, what broke off goes on");
  command->add_option("model", settings->repository, "ORG/NAME")->required();
  command->add_option("--revision", settings->revision, "branch, tag or commit")
      ->capture_default_str();
  command->add_option("--cache-dir", settings->cache_directory,
                      "folder to download to, in the cache's layout, instead of the cache");
  command->callback([settings, &exit_code] { exit_code = report(pull(*settings)); });
}

}  // namespace saccade
