#include "model/quantization/compressed_config.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/json.h"

namespace saccade {
namespace {

// "down_proj" of "model.layers.0.mlp.down_proj"
std::string_view last_part(std::string_view name) {
  return name.substr(name.find_last_of('.') + 1);
}

// The modules of one group by as few expressions as name them and no others.
std::vector<std::string> targets_of(std::int64_t group,
                                    const std::vector<CompressedModule>& modules) {
  std::set<std::string_view> elsewhere;
  for (const CompressedModule& module : modules) {
    if (module.group != group) elsewhere.insert(last_part(module.name));
  }
  std::set<std::string> targets;
  for (const CompressedModule& module : modules) {
    if (module.group != group) continue;
    const std::string_view part = last_part(module.name);
    targets.insert(elsewhere.contains(part) ? module.name : fmt::format("re:.*[.]{}$", part));
  }
  return {targets.begin(), targets.end()};
}

// The size that most modules have: the one that layers of several matrices, which other programs
// name otherwise, are of.
std::int64_t common_group(const std::vector<CompressedModule>& modules) {
  std::map<std::int64_t, std::size_t> counts;
  for (const CompressedModule& module : modules) ++counts[module.group];
  return std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
}

void write_weights(json::JsonWriter& w, int bits, std::int64_t group) {
  w.key("weights");
  w.begin_object();
  w.member("num_bits", bits);
  w.member("type", "int");
  w.member("symmetric", true);
  w.member("strategy", group > 0 ? "group" : "channel");
  w.key("group_size");
  if (group > 0)
    w.value(group);
  else
    w.null();
  w.member("dynamic", false);
  for (const char* none : {"actorder", "block_structure"}) {
    w.key(none);
    w.null();
  }
  w.member("observer", "mse");
  w.end_object();
}

void write_activations(json::JsonWriter& w, int bits) {
  w.key("input_activations");
  if (bits == 8) {
    w.begin_object();
    w.member("num_bits", 8);
    w.member("type", "int");
    w.member("symmetric", true);
    w.member("strategy", "token");
    w.member("dynamic", true);
    w.end_object();
  } else {
    w.null();
  }
  w.key("output_activations");
  w.null();
}

void write_strings(json::JsonWriter& w, std::string_view name,
                   const std::vector<std::string>& texts) {
  w.key(name);
  w.begin_array();
  for (const std::string& text : texts) w.value(std::string_view(text));
  w.end_array();
}

}  // namespace

std::string compressed_config(int bits, const std::vector<CompressedModule>& modules,
                              const std::vector<std::string>& left) {
  const std::int64_t common = common_group(modules);
  // A reader may take the first target that fits a module: that of all comes last.
  std::vector<std::int64_t> groups;
  for (const CompressedModule& module : modules) {
    if (module.group != common && std::ranges::find(groups, module.group) == groups.end())
      groups.push_back(module.group);
  }
  groups.push_back(common);
  std::string text;
  json::JsonWriter w(text);
  w.begin_object();
  w.member("quant_method", "compressed-tensors");
  w.member("format", bits == 8 ? "int-quantized" : "pack-quantized");
  w.member("quantization_status", "compressed");
  w.key("config_groups");
  w.begin_object();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    w.key(fmt::format("group_{}", i));
    w.begin_object();
    write_strings(
        w, "targets",
        groups[i] == common ? std::vector<std::string>{"Linear"} : targets_of(groups[i], modules));
    write_weights(w, bits, groups[i]);
    write_activations(w, bits);
    w.end_object();
  }
  w.end_object();
  write_strings(w, "ignore", left);
  w.key("kv_cache_scheme");
  w.null();
  w.end_object();
  return text;
}

Result<std::string> with_quantization_config(std::string_view config, std::string_view section) {
  TRY(const json::value parsed, json::parse(config));
  if (!parsed.is_object())
    return fail(ErrorCode::kInvalid, "config.json is {}, not an object", json::kind_name(parsed));
  // Into the text, so that all of it that was there stays as it was.
  const std::size_t brace = config.find_last_of('}');
  const std::size_t end = config.find_last_not_of(" \t\r\n", brace - 1) + 1;
  return fmt::format("{}{}\n  \"quantization_config\": {}\n}}\n", config.substr(0, end),
                     parsed.get_object().empty() ? "" : ",", section);
}

}  // namespace saccade
