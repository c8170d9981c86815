#include "model/gguf/gguf_model.h"

#include <algorithm>
#include <utility>

namespace saccade {
namespace {

Result<GgufFile> open_file(const std::string& path) {
  TRY(MappedFile mapped, MappedFile::open(path));
  auto header = parse_gguf(mapped.bytes());
  if (!header) return fail_within(path, std::move(header).error());
  return GgufFile{path, std::move(mapped), *std::move(header)};
}

// What the header says beside what is expected of it.
Result<void> check_projector(const GgufFile& file) {
  TRY(const std::string_view architecture,
      file.header.metadata.get_string_or("general.architecture", ""));
  if (architecture != "clip")
    return fail(ErrorCode::kInvalid,
                "{}: general.architecture is \"{}\", a projector's (mmproj) is \"clip\"", file.path,
                architecture);
  TRY(const bool vision, file.header.metadata.get_bool_or("clip.has_vision_encoder", true));
  if (!vision) return fail(ErrorCode::kUnsupported, "{}: it has no vision encoder", file.path);
  return {};
}

Result<std::string> type_of(const GgufFile& projector) {
  const GgufMetadata& metadata = projector.header.metadata;
  TRY(const std::string_view older, metadata.get_string_or("clip.projector_type", ""));
  TRY(const std::string_view type, metadata.get_string_or("clip.vision.projector_type", older));
  if (type.empty())
    return fail(ErrorCode::kInvalid, "{}: clip.projector_type is missing", projector.path);
  return std::string(type);
}

}  // namespace

Result<GgufModel> GgufModel::open(const GgufPaths& paths) {
  GgufModel model;
  TRY(GgufFile first, open_file(paths.model));
  TRY(const std::int64_t count, first.header.metadata.get_int_or("split.count", 1));
  TRY(const std::string_view architecture,
      first.header.metadata.get_string_or("general.architecture", ""));
  model.architecture_ = architecture;
  if (architecture == "clip")
    return fail(ErrorCode::kInvalid,
                "{} holds a vision tower alone: give the model's file and this as --mmproj",
                paths.model);
  model.files_.push_back(std::move(first));
  if (count > 1) {
    TRY(const std::vector<std::string> shards, gguf_shards(paths.model, count));
    for (std::size_t i = 1; i < shards.size(); ++i) {
      TRY(GgufFile next, open_file(shards[i]));
      model.files_.push_back(std::move(next));
    }
  }
  model.projector_ = model.files_.size();
  if (paths.projector.empty()) return model;
  TRY(GgufFile projector, open_file(paths.projector));
  TRY_DO(check_projector(projector));
  TRY(model.projector_type_, type_of(projector));
  model.files_.push_back(std::move(projector));
  return model;
}

GgufPlace GgufModel::find(std::string_view name) const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::vector<GgufTensor>& tensors = files_[i].header.tensors;
    const auto found = std::ranges::find(tensors, name, &GgufTensor::name);
    if (found != tensors.end()) return {i, &*found};
  }
  return {};
}

}  // namespace saccade
