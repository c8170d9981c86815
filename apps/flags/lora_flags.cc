#include "apps/flags/lora_flags.h"

#include <utility>

#include "apps/flags/serve_environment.h"
#include "base/json.h"

namespace saccade {
namespace {

Result<serve::LoraModule> module_of(const std::string& given) {
  serve::LoraModule module;
  if (!given.starts_with('{')) {
    const std::size_t equals = given.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == given.size())
      return fail(ErrorCode::kInvalid,
                  "'{}' is not NAME=FOLDER and no JSON object with name and path", given);
    module.name = given.substr(0, equals);
    module.path = given.substr(equals + 1);
    return module;
  }
  TRY(const json::value tree, json::parse(given));
  const json::object& members = tree.get_object();
  TRY(module.name, json::get_string(members, "name"));
  TRY(module.path, json::get_string(members, "path"));
  TRY(module.base_model_name, json::get_string_or(members, "base_model_name", ""));
  for (const auto& member : members) {
    const std::string_view name(member.key());
    if (name != "name" && name != "path" && name != "base_model_name")
      return fail(ErrorCode::kInvalid, "'{}' is not known; name, path and base_model_name are",
                  name);
  }
  return module;
}

}  // namespace

void add_lora_flags(CLI::App& cmd, LoraFlags& f, serve::ServeSettings& s) {
  cmd.add_flag("--enable-lora,!--no-enable-lora", f.enable,
               "let requests name an adapter as their model");
  cmd.add_option("--lora-modules", f.modules,
                 "adapters to load at start: NAME=FOLDER, or JSON with name, path and "
                 "base_model_name")
      ->expected(1, -1);
  cmd.add_option("--max-loras", f.max_loras, "most adapters in one step")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  cmd.add_option("--max-lora-rank", s.engine.max_lora_rank, "highest rank that an adapter may have")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  cmd.add_option("--max-cpu-loras", f.max_cpu_loras,
                 "adapters whose files are kept in memory; others are read again when a request "
                 "names them")
      ->default_str("--max-loras")
      ->check(CLI::Range(1, 1 << 20));
  cmd.add_flag("--allow-runtime-lora-updating", s.lora.runtime_updates,
               "enable /v1/load_lora_adapter and /v1/unload_lora_adapter (also "
               "VLLM_ALLOW_RUNTIME_LORA_UPDATING)");
  cmd.add_option("--allowed-lora-paths", s.lora.allowed_paths,
                 "folders that adapters may be loaded from")
      ->expected(1, -1)
      ->default_str("any");
}

Result<void> complete_lora(const LoraFlags& f, serve::ServeSettings& s) {
  if (!f.enable && !f.modules.empty())
    return fail(ErrorCode::kInvalid, "--lora-modules: --enable-lora is needed");
  s.lora.runtime_updates =
      s.lora.runtime_updates || environment_switch("VLLM_ALLOW_RUNTIME_LORA_UPDATING");
  if (!f.enable) return {};
  s.engine.max_loras = f.max_loras;
  if (f.max_cpu_loras > 0 && f.max_cpu_loras < f.max_loras)
    return fail(ErrorCode::kInvalid, "--max-cpu-loras {} is less than --max-loras {}",
                f.max_cpu_loras, f.max_loras);
  s.lora.max_in_memory = f.max_cpu_loras;
  for (const std::string& given : f.modules) {
    auto module = module_of(given);
    if (!module) return fail_within("--lora-modules", std::move(module).error());
    s.lora.modules.push_back(*std::move(module));
  }
  return {};
}

}  // namespace saccade
