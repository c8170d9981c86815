// Where a GGUF checkpoint is: the text's file, and that of the tower and its projector.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace saccade {

struct GgufPaths {
  std::string model;
  std::string projector;  // empty: text alone
};

// Nothing where `place` is no GGUF. It is MODEL.gguf, or MODEL.gguf,MMPROJ.gguf, or a folder
// without config.json and safetensors that holds one model and at most one file with mmproj in its
// name. kInvalid names the files of a folder that holds more.
Result<std::optional<GgufPaths>> find_gguf(const std::string& place);

// As find_gguf() takes it.
std::string gguf_place(const GgufPaths& paths);

// The other files of a model that is in several, by the names that splitting gives them
// (NAME-00001-of-00003.gguf); all, in order, with the given one, which must be the first.
Result<std::vector<std::string>> gguf_shards(const std::string& path, std::int64_t count);

}  // namespace saccade
