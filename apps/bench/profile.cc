// saccade profile: what encoding an image and computing a prompt take on this machine.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "apps/cluster_commands.h"
#include "apps/flags/choice_flag.h"
#include "apps/flags/device_flag.h"
#include "serve/assembly/profile_run.h"
#include "serve/server.h"

namespace saccade {
namespace {

struct ProfileFlags {
  serve::ServeSettings settings;
  std::string output;
  bool again = false;
};

Result<void> run_profile(const ProfileFlags& flags) {
  TRY(const cluster::Profile profile, serve::run_profile(flags.settings, flags.again));
  fmt::print("{}", serve::describe(profile));
  if (flags.output.empty()) return {};
  return cluster::save_profile(flags.output, profile);
}

}  // namespace

void add_profile(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ProfileFlags>();
  auto& s = flags->settings;
  CLI::App* cmd =
      app.add_subcommand("profile", "measure what encoding and prefill take, for image sizes");
  cmd->add_option("model", s.model, "checkpoint: a folder, or ORG/NAME in HF_HOME")->required();
  add_choice(*cmd, "--dtype", s.dtype, serve::kDtypes, "auto, float32, bfloat16 or float16")
      ->capture_default_str();
  add_device_flag(*cmd, s.device);
  cmd->add_option("--quantization", s.quantization,
                  "int8, int4, or what the checkpoint says: as the server's");
  cmd->add_flag("--quantize-tower", s.quantize_tower,
                "the tower's layers in bytes: as the server's");
  add_choice(*cmd, "--kv-cache-dtype", s.kv_dtype, serve::kKvDtypes,
             "auto, bfloat16, float32, int8 or fp8: as the server's")
      ->capture_default_str();
  cmd->add_option("--threads", s.threads, "compute threads; 0: one a core")
      ->check(CLI::Range(0, 1024));
  cmd->add_option("--max-model-len", s.engine.max_model_len, "longest prompt, tokens")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32));
  cmd->add_option("--max-num-batched-tokens", s.engine.max_batched_tokens,
                  "token budget of a step, as the server's")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  cmd->add_option("--profile-folder", s.image_size.profile_folder, "where profiles are kept");
  cmd->add_flag("--again", flags->again, "measure though there is a profile");
  cmd->add_option("--output", flags->output, "write the JSON here too");
  cmd->callback([flags, &exit_code] { exit_code = logged(run_profile(*flags)); });
}

}  // namespace saccade
