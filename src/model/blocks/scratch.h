// Working memory of a model: every view listed first, then one allocation.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ops/device.h"

namespace saccade {

// One thread. The views that add() was given must outlive allocate(). After allocate() the next
// add() starts a new list, whose allocation replaces the first.
class Scratch {
 public:
  void add(View& into, DType type, std::int64_t rows, std::int64_t cols);
  // Sets every view. kExhausted when the device lacks the bytes.
  Result<void> allocate(Device& device);
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    View* into;
    DType type;
    std::int64_t rows;
    std::int64_t cols;
    std::size_t offset;
  };
  std::vector<Entry> entries_;
  std::size_t bytes_ = 0;
  Buffer buffer_;
};

}  // namespace saccade
