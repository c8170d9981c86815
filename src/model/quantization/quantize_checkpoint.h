// A 16-bit checkpoint written again with the matrices of its text's layers as small integers, in
// the form of compressed-tensors, which other servers read too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/threads/thread_pool.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/shard_files.h"

namespace saccade {

struct QuantizeOptions {
  std::string directory;  // written; not there yet, or empty
  // 4: as --quantization int4 rounds (model/quantization/code_rounding.h). 8: as int8 does
  // (ops/formats/int8_rows.h).
  int bits = 4;
  std::int64_t group = 128;  // of 4 bits: 128, 64 or 32 inputs, fewer where they do not divide
  bool head = false;         // of 8 bits: the head too, where it is not the embedding
  std::size_t shard_bytes = kShardBytes;
  // Told after every tensor of the source; may be empty.
  std::function<void(std::size_t done, std::size_t total)> progress;
  // Asked before every tensor; true ends it with kCancelled. May be empty.
  std::function<bool()> stopped;
};

struct QuantizeOutcome {
  std::size_t matrices = 0;      // that became integers
  std::size_t left = 0;          // of the text's layers that did not: no multiple of 32 inputs
  std::size_t bytes_before = 0;  // of all tensors
  std::size_t bytes_after = 0;
};

// Loading what is written gives the bits of loading `source` with --quantization int4 or int8.
// Names are those of the source, all other tensors and files as they are. The folder is there whole
// or not at all: it is made beside its place under a name of its own, which does not stay. Memory:
// the pages and the codes of one matrix. kUnsupported names what cannot be written so (what is
// quantised already, experts in one tensor, a head that is the embedding).
Result<QuantizeOutcome> quantize_checkpoint(const Checkpoint& source,
                                            const QuantizeOptions& options, ThreadPool& pool);

}  // namespace saccade
