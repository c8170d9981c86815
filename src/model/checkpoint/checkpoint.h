// A Hugging Face checkpoint on disk: where it is, and its small files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/named_files.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace saccade {

struct Checkpoint {
  std::string directory;
  json::object config;      // config.json
  json::object generation;  // generation_config.json, or empty
  json::object
      preprocessor;  // preprocessor_config.json, or processor_config.json's image_processor
  // processor_config.json's video_processor or video_preprocessor_config.json; empty where neither
  // is there: videos go by `preprocessor`.
  json::object video_preprocessor = {};
  NamedFiles files = {};  // these and the tokenizer's
};

// `name` is a directory, MODEL.gguf or MODEL.gguf,MMPROJ.gguf, or a HubName of a download in the
// Hugging Face cache (hub_cache.h): a directory or gguf_place(). kUnsupported for .bin and other
// single files, saying what to give instead; kNotFound lists where it looked. `cache` is another
// folder of that layout than hub_cache_directory(), `revision` a branch, tag or commit.
Result<std::string> resolve_checkpoint(std::string_view name, const std::string& cache = "",
                                       const std::string& revision = "main");

// Reads the small files, or what of a GGUF (find_gguf()) stands for them. Errors name the file.
Result<Checkpoint> open_checkpoint(const std::string& directory);

// The safetensors files of a checkpoint in the order of their names: model.safetensors, or the
// shards that model.safetensors.index.json names. `index` gets tensor -> file name when there is an
// index. A checkpoint that has only .bin is kUnsupported.
struct WeightFiles {
  std::vector<std::string> paths;
  json::object index;
};
Result<WeightFiles> find_weight_files(const std::string& directory);

// generation_config's eos_token_id, else config's (text_config's): one id or a list.
Result<std::vector<TokenId>> eos_tokens(const Checkpoint& checkpoint);

// text_config or InternVL's llm_config; the configuration itself where published files are flat.
const json::object& text_section(const json::object& config);

// Where huggingface_hub keeps downloads: HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub.
std::string hub_cache_directory();
// "models--ORG--NAME"
std::string hub_folder(std::string_view repository);
// ORG/NAME of letters, digits, '-', '_' and '.'.
bool is_repository_name(std::string_view name);
// The name of a branch, tag or commit: the same characters, and no '.' in front.
bool is_revision_name(std::string_view name);

}  // namespace saccade
