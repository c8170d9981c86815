// Checkpoints of the hub in huggingface_hub's cache: ORG/NAME, and ORG/NAME:PATTERN for one of a
// repository's models in GGUF.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/gguf/gguf_choice.h"

namespace saccade {

struct HubName {
  std::string repository;  // ORG/NAME
  std::string pattern;     // GgufWanted::model
};
// Nothing where `name` is a path that is there, or can only be a file's.
std::optional<HubName> hub_name_of(std::string_view name);

// The snapshot of the revision, or gguf_place() of the files in it that choose_gguf() chooses:
// where `wanted.model` is given, or the snapshot holds GGUF and no safetensors. `cache` empty:
// hub_cache_directory(). kNotFound where it has not been downloaded says how to.
Result<std::string> find_in_hub_cache(const std::string& repository, const GgufWanted& wanted,
                                      const std::string& cache, const std::string& revision);

}  // namespace saccade
