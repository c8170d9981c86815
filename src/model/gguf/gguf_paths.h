// Where a GGUF checkpoint is: the text's file, and that of the tower and its projector.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade {

constexpr std::string_view kGgufEnding = ".gguf";
constexpr std::string_view kGgufPartEnding = "-00001-of-00003.gguf";  // digits vary

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

// What a file's name says: the number of files it is one of (1: it says none), whether it is one of
// those after the first, and whether it is a projector's.
std::int64_t gguf_parts(std::string_view name);
bool is_later_gguf_part(std::string_view name);
bool names_gguf_projector(std::string_view name);

}  // namespace saccade
