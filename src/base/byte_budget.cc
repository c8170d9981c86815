#include "base/byte_budget.h"

namespace saccade {

bool ByteReservation::grow(std::size_t more) {
  if (more == 0) return true;
  if (count_ == nullptr) return false;
  std::size_t used = count_->used.load(std::memory_order_relaxed);
  do {
    if (more > count_->limit - used) return false;
  } while (!count_->used.compare_exchange_weak(used, used + more, std::memory_order_relaxed));
  bytes_ += more;
  return true;
}

void ByteReservation::shrink_to(std::size_t bytes) {
  if (bytes >= bytes_) return;
  count_->used.fetch_sub(bytes_ - bytes, std::memory_order_relaxed);
  bytes_ = bytes;
}

std::optional<ByteReservation> ByteBudget::reserve(std::size_t bytes) const {
  ByteReservation reservation(count_);
  if (!reservation.grow(bytes)) return std::nullopt;
  return reservation;
}

}  // namespace saccade
