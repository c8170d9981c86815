#include "engine/step/lora_slots.h"

#include <algorithm>

#include "base/check.h"

namespace saccade {

const PackedLora& LoraSlots::get(const LoraAdapter& adapter) {
  const auto found = std::ranges::find(slots_, adapter.identity(), &Slot::identity);
  if (found != slots_.end()) {
    slots_.splice(slots_.begin(), slots_, found);
    return found->lora;
  }
  CHECK(most_ > 0, "adapter {} without a slot", adapter.name());
  if (static_cast<std::int64_t>(slots_.size()) >= most_) {
    // Steps that have been submitted may still read it.
    device_.lane(Lane::kStep).synchronize();
    slots_.pop_back();
  }
  slots_.push_front({adapter.identity(), PackedLora(adapter, device_, network_.lora_compute())});
  ++packed_;
  return slots_.front().lora;
}

}  // namespace saccade
