// A bound on the bytes that many hold at once: bodies on their way, media, pixels. Whoever is about
// to hold bytes reserves them first; what a reservation holds is given back when it dies.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace saccade {

// Bytes of a budget. Move only; one thread at a time. Outlives its budget without harm.
class ByteReservation {
 public:
  ByteReservation() = default;  // of nothing, 0 bytes: cannot grow
  ~ByteReservation() { shrink_to(0); }
  ByteReservation(ByteReservation&& other) noexcept
      : count_(std::move(other.count_)), bytes_(std::exchange(other.bytes_, 0)) {}
  ByteReservation& operator=(ByteReservation&& other) noexcept {
    shrink_to(0);
    count_ = std::move(other.count_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }
  // False, and nothing changes, when the budget has not as much left.
  [[nodiscard]] bool grow(std::size_t more);
  void shrink_to(std::size_t bytes);  // no effect when it holds less

 private:
  friend class ByteBudget;
  struct Count {
    explicit Count(std::size_t most) : limit(most) {}
    const std::size_t limit;
    std::atomic<std::size_t> used = 0;
  };
  explicit ByteReservation(std::shared_ptr<Count> count) : count_(std::move(count)) {}

  std::shared_ptr<Count> count_;
  std::size_t bytes_ = 0;
};

// Any thread.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t limit)
      : count_(std::make_shared<ByteReservation::Count>(limit)) {}

  // Absent when there is not as much left.
  [[nodiscard]] std::optional<ByteReservation> reserve(std::size_t bytes) const;
  std::size_t used() const { return count_->used.load(std::memory_order_relaxed); }
  std::size_t limit() const { return count_->limit; }

 private:
  std::shared_ptr<ByteReservation::Count> count_;
};

}  // namespace saccade
