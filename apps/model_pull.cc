// `saccade model pull`: a checkpoint from the hub into the Hugging Face cache.
#include "hub/model_pull.h"

#include <unistd.h>

#include <memory>

#include "apps/model_commands.h"

namespace saccade {
namespace {

void show(const hub::PullProgress& progress) {
  std::fprintf(stderr, "\r\033[K%zu/%zu %s %.1f of %.1f MB", progress.index + 1, progress.files,
               progress.file.c_str(), static_cast<double>(progress.done) / 1e6,
               static_cast<double>(progress.size) / 1e6);
}

Result<void> pull(hub::PullSettings& settings) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal) settings.progress = show;
  const auto directory = hub::pull_model(settings);
  if (terminal) std::fputs("\r\033[K", stderr);
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
