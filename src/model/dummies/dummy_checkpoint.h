// A checkpoint of a family's true shape with random weights, to measure full-size speed without a
// download.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/checkpoint/shard_files.h"
#include "model/family.h"

namespace saccade {

struct DummyOptions {
  std::string directory;     // made when absent; files in it are replaced
  bool config_only = false;  // everything but the weights
  std::uint64_t seed = 0;
  std::size_t shard_bytes = kShardBytes;
  // Told after every tensor; may be empty.
  std::function<void(std::size_t written, std::size_t total)> progress;
};

// bf16 weights under the hub's names. The same seed writes the same bytes. kInvalid lists the sizes
// there are; kExhausted when the disk has no room, before anything is written.
Result<void> write_dummy_checkpoint(const Family& family, std::string_view size,
                                    const DummyOptions& options);

}  // namespace saccade
