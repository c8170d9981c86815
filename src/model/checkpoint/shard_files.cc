#include "model/checkpoint/shard_files.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "model/checkpoint/safetensors_header.h"

namespace saccade {

ShardFiles::ShardFiles(std::string directory, std::span<const SafetensorsEntry> tensors,
                       std::size_t limit)
    : directory_(std::move(directory)), shards_(1) {
  for (const SafetensorsEntry& tensor : tensors) {
    const std::size_t more = tensor.end - tensor.begin;
    if (shards_.back().bytes + more > limit && !shards_.back().tensors.empty())
      shards_.emplace_back();
    Shard& shard = shards_.back();
    shard.tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, shard.bytes, shard.bytes + more});
    shard.bytes += more;
    bytes_ += more;
  }
}

std::string ShardFiles::name(std::size_t shard) const {
  if (shards_.size() == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards_.size());
}

tl::unexpected<Error> ShardFiles::full() const {
  return fail(ErrorCode::kExhausted, "{}: writing failed; is the disk full?", path(next_ - 1));
}

Result<void> ShardFiles::open_next() {
  const std::size_t index = next_++;
  file_.reset(std::fopen(path(index).c_str(), "wb"));
  if (file_ == nullptr) return fail(ErrorCode::kInvalid, "{}: cannot be written", path(index));
  const std::string header = write_safetensors_header(shards_[index].tensors, {{"format", "pt"}});
  if (std::fwrite(header.data(), 1, header.size(), file_.get()) != header.size()) return full();
  left_ = shards_[index].bytes;
  return {};
}

Result<void> ShardFiles::close() {
  const bool stored = std::fflush(file_.get()) == 0 && ::fsync(::fileno(file_.get())) == 0;
  file_.reset();
  return stored ? Result<void>{} : full();
}

Result<void> ShardFiles::write(std::span<const std::byte> piece) {
  CHECK(written_ + piece.size() <= bytes_, "{} bytes are written of {}", written_ + piece.size(),
        bytes_);
  while (!piece.empty()) {
    if (file_ == nullptr) TRY_DO(open_next());
    const std::size_t part = std::min(piece.size(), left_);
    if (std::fwrite(piece.data(), 1, part, file_.get()) != part) return full();
    written_ += part;
    left_ -= part;
    piece = piece.subspan(part);
    if (left_ == 0) TRY_DO(close());
  }
  return {};
}

Result<void> ShardFiles::finish() {
  CHECK(written_ == bytes_, "{} bytes are written of {}", written_, bytes_);
  while (next_ < shards_.size()) {  // a file of empty tensors alone
    TRY_DO(open_next());
    TRY_DO(close());
  }
  if (shards_.size() == 1) return {};
  std::string text;
  json::JsonWriter w(text);
  w.begin_object();
  w.key("metadata");
  w.begin_object();
  w.member("total_size", static_cast<std::uint64_t>(bytes_));
  w.end_object();
  w.key("weight_map");
  w.begin_object();
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    for (const SafetensorsEntry& tensor : shards_[i].tensors)
      w.member(tensor.name, std::string_view(name(i)));
  }
  w.end_object();
  w.end_object();
  const std::string index = directory_ + "/model.safetensors.index.json";
  std::ofstream file(index, std::ios::binary);
  file << text;
  file.close();
  if (!file) return fail(ErrorCode::kInvalid, "{}: cannot be written", index);
  return {};
}

}  // namespace saccade
