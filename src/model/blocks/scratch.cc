#include "model/blocks/scratch.h"

namespace saccade {

void Scratch::add(View& into, DType type, std::int64_t rows, std::int64_t cols) {
  constexpr std::size_t kAlign = 256;
  if (entries_.empty()) bytes_ = 0;
  entries_.push_back({&into, type, rows, cols, bytes_});
  const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(type);
  bytes_ += (bytes + kAlign - 1) / kAlign * kAlign;
}

Result<void> Scratch::allocate(Device& device) {
  buffer_.reset();  // first: there may not be room for both
  TRY(buffer_, device.allocate(bytes_));
  for (const Entry& entry : entries_)
    *entry.into = View(buffer_.data() + entry.offset, entry.type, entry.rows, entry.cols,
                       entry.cols, buffer_.space());
  entries_.clear();
  return {};
}

}  // namespace saccade
