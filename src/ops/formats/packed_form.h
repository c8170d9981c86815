// Packed weights as bytes that a later start of the program gets back: of a device whose packed
// weights are memory of the host and follow from what was packed alone. Devices that can are found
// by dynamic_cast.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/device.h"

namespace saccade {

struct PackedForm {
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::array<std::int64_t, 6> layout{};            // the device's own
  std::vector<std::span<const std::byte>> pieces;  // 64-byte aligned, or empty
};

class RestoresPacked {
 public:
  virtual ~RestoresPacked() = default;
  // What the layout of its weights goes by: forms of a device that says otherwise mean nothing
  // here. Not of how many threads there are.
  virtual std::string packing() const = 0;
  // Of what this device's pack() made. The pieces are the weight's own memory.
  virtual PackedForm form_of(const PackedWeight& weight) const = 0;
  // The weight that had this form, equal to the bit; `owner` keeps the pieces, which are neither
  // copied as a whole nor written to. Null: no weight has such a form.
  virtual std::unique_ptr<PackedWeight> restore(const PackedForm& form,
                                                std::shared_ptr<const void> owner) const = 0;
};

}  // namespace saccade
