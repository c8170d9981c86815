// Where `saccade serve` finds ORG/NAME and ORG/NAME:PATTERN: the cache, the folder of
// --download-dir, else the hub.
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "apps/flags/serve_environment.h"
#include "apps/flags/serve_flags.h"
#include "apps/model/pull_report.h"
#include "base/log.h"
#include "hub/model_pull.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/hub_cache.h"
#include "model/gguf/gguf_paths.h"

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

// A file of this machine, given as --mmproj.
bool has_projector_file(const ServeFlags& flags) {
  std::error_code ignored;
  return !flags.projector.empty() && std::filesystem::exists(flags.projector, ignored);
}

hub::PullSettings pull_settings(const ServeFlags& flags, const std::string& revision) {
  hub::PullSettings settings = hub::pull_settings_from_environment();
  if (!revision.empty()) settings.revision = revision;
  if (!flags.download_directory.empty()) settings.cache_directory = flags.download_directory;
  if (!flags.hub_token.empty())
    settings.token = flags.hub_token.front().empty() ? stored_token() : flags.hub_token.front();
  return settings;
}

// What is read of `name`, a path or a HubName. Of a GGUF `gguf` says which projector.
Result<std::string> find_or_pull(const ServeFlags& flags, const std::string& name,
                                 const std::string& revision, GgufWanted gguf) {
  std::optional<HubName> hub = hub_name_of(name);
  if (!hub) return resolve_checkpoint(name);
  hub::PullSettings settings = pull_settings(flags, revision);
  settings.repository = std::move(hub->repository);
  settings.gguf = std::move(gguf);
  settings.gguf.model = std::move(hub->pattern);
  auto found = find_in_hub_cache(settings.repository, settings.gguf, settings.cache_directory,
                                 settings.revision);
  if (found || found.error().code != ErrorCode::kNotFound) return found;
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

// `place` with the projector that the flags say. complete() has added a file to another file.
Result<std::string> with_projector(const ServeFlags& flags, const std::string& place) {
  if (!flags.text_alone && flags.projector.empty()) return place;
  TRY(std::optional<GgufPaths> gguf, find_gguf(place));
  if (!gguf)
    return fail(ErrorCode::kInvalid, "{} goes with a model in GGUF; {} is none",
                flags.text_alone ? "--no-mmproj" : "--mmproj", flags.settings.model);
  if (flags.text_alone) gguf->projector.clear();
  if (has_projector_file(flags)) gguf->projector = flags.projector;
  return gguf_place(*gguf);
}

// The model's, and of one on the hub what has been chosen.
Result<std::string> find_model(const ServeFlags& flags) {
  const std::string& name = flags.settings.model;
  GgufWanted wanted;
  wanted.text_alone = flags.text_alone || has_projector_file(flags);
  if (!wanted.text_alone) wanted.projector = flags.projector;
  TRY(const std::string found, find_or_pull(flags, name, flags.revision, std::move(wanted)));
  TRY(const std::string place, with_projector(flags, found));
  TRY(const std::optional<GgufPaths> gguf, find_gguf(place));
  if (!gguf || !hub_name_of(name)) return place;
  if (gguf->projector.empty() && !flags.text_alone) {
    log::info("{}: {}, text alone: no projector is beside it (`saccade model pull {}` looks again)",
              name, gguf->model, name);
  } else {
    log::info("{}: {}", name, place);
  }
  return place;
}

}  // namespace

Result<void> fetch_checkpoint(ServeFlags& flags) {
  TRY(flags.settings.checkpoint, find_model(flags));
  const GgufWanted text{.text_alone = true};
  if (DraftSettings& draft = flags.settings.engine.speculation.draft; !draft.model.empty()) {
    auto found = find_or_pull(flags, draft.model, draft.revision, text);
    if (!found) return fail_within("--speculative-config, model", std::move(found).error());
    draft.model = *std::move(found);
  }
  if (flags.tokenizer.empty()) {
    if (flags.tokenizer_revision.empty()) return {};
    flags.tokenizer = flags.settings.model;
  }
  auto tokenizer = find_or_pull(flags, flags.tokenizer, flags.tokenizer_revision, text);
  if (!tokenizer) return fail_within("--tokenizer", std::move(tokenizer).error());
  flags.settings.tokenizer = *std::move(tokenizer);
  return {};
}

}  // namespace saccade
