// Adapters on the device: as many as may run at once, the least recently used giving way.
#pragma once

#include <cstdint>
#include <list>
#include <string>

#include "model/adapters/lora_adapter.h"
#include "model/network.h"

namespace saccade {

// Engine thread.
class LoraSlots {
 public:
  // `most`: at once; 0: none.
  LoraSlots(const Network& network, Device& device, std::int64_t most)
      : network_(network), device_(device), most_(most) {}

  // On the device; packed where it is not there yet. Good until the step that it is asked for has
  // been submitted: a step has no more of them than slots.
  const PackedLora& get(const LoraAdapter& adapter);

  std::uint64_t packed() const { return packed_; }  // so far

 private:
  struct Slot {
    std::string identity;
    PackedLora lora;
  };
  const Network& network_;
  Device& device_;
  std::int64_t most_;
  std::list<Slot> slots_;  // the last used first
  std::uint64_t packed_ = 0;
};

}  // namespace saccade
