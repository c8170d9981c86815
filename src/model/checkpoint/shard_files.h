// The weight files of a checkpoint that is written: safetensors of bounded size and their index,
// filled front to back.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/checkpoint/safetensors.h"

namespace saccade {

constexpr std::size_t kShardBytes = 5'000'000'000;

// One thread. What was written is on the disk after finish(), not before.
class ShardFiles {
 public:
  // In files of at most `limit` bytes of data, a tensor never in two, in the order given: of each
  // entry's offsets only the difference counts. Nothing is opened yet.
  ShardFiles(std::string directory, std::span<const SafetensorsEntry> tensors, std::size_t limit);
  ShardFiles(const ShardFiles&) = delete;
  ShardFiles& operator=(const ShardFiles&) = delete;

  std::size_t bytes() const { return bytes_; }  // of all tensors
  std::size_t written() const { return written_; }
  std::size_t count() const { return shards_.size(); }

  // The next bytes of the tensors, which follow each other in pieces of any size. kExhausted names
  // the file that could not be written.
  Result<void> write(std::span<const std::byte> piece);
  // After the last of them; CHECKs that there is no tensor left. Writes the index where there are
  // several files.
  Result<void> finish();

 private:
  struct Shard {
    std::vector<SafetensorsEntry> tensors;  // offsets in this file
    std::size_t bytes = 0;
  };
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string name(std::size_t shard) const;
  std::string path(std::size_t shard) const { return directory_ + "/" + name(shard); }
  Result<void> open_next();
  Result<void> close();
  tl::unexpected<Error> full() const;

  std::string directory_;
  std::vector<Shard> shards_;
  std::size_t bytes_ = 0;
  std::size_t written_ = 0;
  std::unique_ptr<std::FILE, Closer> file_;  // of shards_[next_ - 1]
  std::size_t next_ = 0;
  std::size_t left_ = 0;  // bytes of the open file's data
};

}  // namespace saccade
