// The files of a GGUF checkpoint, mapped, with their headers: what its configuration, its tokenizer
// and its tensors are read from.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/checkpoint/mapped_file.h"
#include "model/gguf/gguf_header.h"
#include "model/gguf/gguf_paths.h"

namespace saccade {

struct GgufFile {
  std::string path;
  MappedFile file;
  GgufHeader header;

  std::span<const std::byte> bytes(const GgufTensor& tensor) const {
    return file.bytes().subspan(header.data + tensor.begin, tensor.end - tensor.begin);
  }
};

// A tensor and the file that it is in, by its place among GgufModel::files.
struct GgufPlace {
  std::size_t file = 0;
  const GgufTensor* tensor = nullptr;  // null: there is none
};

// Move-only; immutable.
class GgufModel {
 public:
  // Errors name the file.
  static Result<GgufModel> open(const GgufPaths& paths);

  const std::vector<GgufFile>& files() const { return files_; }
  const GgufMetadata& metadata() const { return files_.front().header.metadata; }
  // CHECKs that there is one.
  const GgufMetadata& projector() const { return files_.at(projector_).header.metadata; }
  GgufPlace find(std::string_view name) const;
  // Of general.architecture: "qwen2.block_count".
  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }
  const std::string& architecture() const { return architecture_; }
  std::string_view projector_type() const { return projector_type_; }  // empty: text alone

 private:
  std::vector<GgufFile> files_;  // the text's in their order, then the projector's
  std::size_t projector_ = 0;
  std::string architecture_;
  std::string projector_type_;
};

}  // namespace saccade
