// Where `saccade serve` finds ORG/NAME: the cache, the folder of --download-dir, else the hub.
#include <filesystem>
#include <fstream>
#include <string>

#include "apps/pull_report.h"
#include "apps/serve_environment.h"
#include "apps/serve_flags.h"
#include "base/log.h"
#include "hub/model_pull.h"
#include "model/checkpoint/checkpoint.h"

namespace saccade {
namespace {

// What `huggingface-cli login` has stored; empty where there is none.
std::string stored_token() {
  std::string path = environment("HF_TOKEN_PATH");
  if (path.empty()) {
    std::string home = environment("HF_HOME");
    if (home.empty()) home = environment("HOME") + "/.cache/huggingface";
    path = home + "/token";
  }
  std::ifstream file(path);
  std::string token;
  file >> token;
  return token;
}

hub::PullSettings pull_settings(const ServeFlags& flags, const std::string& repository,
                                const std::string& revision) {
  hub::PullSettings settings = hub::pull_settings_from_environment();
  settings.repository = repository;
  if (!revision.empty()) settings.revision = revision;
  if (!flags.download_directory.empty()) settings.cache_directory = flags.download_directory;
  if (!flags.hub_token.empty())
    settings.token = flags.hub_token.front().empty() ? stored_token() : flags.hub_token.front();
  return settings;
}

// The folder of `name`, a path or ORG/NAME.
Result<std::string> find_or_pull(const ServeFlags& flags, const std::string& name,
                                 const std::string& revision) {
  std::error_code ignored;
  hub::PullSettings settings = pull_settings(flags, name, revision);
  auto found = resolve_checkpoint(name, settings.cache_directory, settings.revision);
  if (found || found.error().code != ErrorCode::kNotFound || !is_repository_name(name) ||
      std::filesystem::exists(name, ignored))
    return found;
  if (environment_switch("HF_HUB_OFFLINE") || environment_switch("TRANSFORMERS_OFFLINE"))
    return fail_within("HF_HUB_OFFLINE is set", std::move(found).error());
  log::info("downloading {} of {} to {}", settings.revision, name, settings.cache_directory);
  PullReport report;
  settings.progress = [&](const hub::PullProgress& progress) { report.show(progress); };
  auto pulled = hub::pull_model(settings);
  report.end();
  if (!pulled)
    return fail(pulled.error().code, "{}; downloading it failed: {}", found.error().message,
                pulled.error().message);
  return pulled;
}

}  // namespace

Result<void> fetch_checkpoint(ServeFlags& flags) {
  TRY(flags.settings.checkpoint, find_or_pull(flags, flags.settings.model, flags.revision));
  if (DraftSettings& draft = flags.settings.engine.speculation.draft; !draft.model.empty()) {
    auto found = find_or_pull(flags, draft.model, draft.revision);
    if (!found) return fail_within("--speculative-config, model", std::move(found).error());
    draft.model = *std::move(found);
  }
  if (flags.tokenizer.empty()) {
    if (flags.tokenizer_revision.empty()) return {};
    flags.tokenizer = flags.settings.model;
  }
  auto tokenizer = find_or_pull(flags, flags.tokenizer, flags.tokenizer_revision);
  if (!tokenizer) return fail_within("--tokenizer", std::move(tokenizer).error());
  flags.settings.tokenizer = *std::move(tokenizer);
  return {};
}

}  // namespace saccade
