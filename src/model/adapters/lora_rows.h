// Which rows of a step which adapter is for, and adding to them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/adapters/lora_adapter.h"
#include "model/blocks/scratch.h"
#include "ops/device.h"

namespace saccade {

// Rows of one adapter: `count` of Batch::lora_rows from `begin` on.
struct LoraRows {
  const PackedLora* adapter = nullptr;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  // Of rows that follow each other: the first of them, and no list is read.
  std::int64_t first = -1;
};

// Of rows that follow each other, those among [begin, begin + count), counted from there.
std::vector<LoraRows> slice_of(std::span<const LoraRows> loras, std::int64_t begin,
                               std::int64_t count);

// y of some rows += scale * B (A x). Engine thread.
class LoraAdder {
 public:
  // Room for `rank`, 0: no adapters.
  void add_scratch(Scratch& scratch, DType type, std::int64_t rows, std::int64_t rank,
                   std::span<const LoraTarget> targets);
  // The rows of the step that begins; both are good until it has been submitted.
  void begin(std::span<const LoraRows> loras, DeviceInts rows);
  // The same for other rows than the step's, of which `loras` says whose they are: it has to live
  // as long as what is returned.
  LoraAdder of(std::span<const LoraRows> loras) const;
  // Whether any row's adapter adds to what this linear gives.
  bool adds_to(const Linear& linear) const;
  // To y, what `linear` gave of x: rows of the step both. Rows without an adapter are not touched;
  // each row's sums are its own, whatever is beside it.
  void add(Stream& stream, const Linear& linear, View x, View y) const;

 private:
  void add_some(Stream& stream, const PackedLora::Part& part, View x, View y,
                const LoraRows& rows) const;

  std::span<const LoraRows> loras_;
  DeviceInts rows_;
  View gathered_;  // [some rows, widest in]
  View inner_;     // [some rows, rank of all modules of a linear]
  View part_;      // [some rows, widest out]
};

}  // namespace saccade
