#include "ops/cuda/products/bias_copies.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "tensor/dtype.h"

namespace saccade::cuda {
namespace {

constexpr std::size_t kChunk = std::size_t{4} << 20;  // two million outputs
constexpr std::size_t kAlign = 256;

std::size_t copy_bytes(std::int64_t outputs) {
  return (static_cast<std::size_t>(outputs) * size_of(DType::kBf16) + kAlign - 1) / kAlign * kAlign;
}

bool is_bf16(float value) {
  return std::bit_cast<std::uint32_t>(to_float(to_bf16(value))) ==
         std::bit_cast<std::uint32_t>(value);
}

}  // namespace

BiasCopies::~BiasCopies() {
  for (std::byte* const chunk : chunks_) runtime_->free(chunk);
}

void BiasCopies::reserve() {
  const std::lock_guard lock(mutex_);
  make_room(kAlign);
}

std::optional<BiasCopies::Copy> BiasCopies::find(const float* bias, std::int64_t outputs) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(bias);
  if (found == known_.end() || found->second.outputs != outputs) return std::nullopt;
  return found->second.copy;
}

BiasCopies::Copy BiasCopies::add(const float* bias, std::span<const float> values) {
  const std::lock_guard lock(mutex_);
  const auto outputs = static_cast<std::int64_t>(values.size());
  Known known{outputs, {}};
  if (std::ranges::all_of(values, is_bf16)) known.copy.data = take(copy_bytes(outputs));
  known_.insert_or_assign(bias, known);
  return known.copy;
}

void BiasCopies::forget(const void* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto* const from = static_cast<const std::byte*>(begin);
  const auto ends_before = [&](const auto& each) {
    return reinterpret_cast<const std::byte*>(each.first + each.second.outputs) <= from;
  };
  std::erase_if(known_, [&](const auto& each) {
    return reinterpret_cast<const std::byte*>(each.first) < from + bytes && !ends_before(each);
  });
}

std::byte* BiasCopies::take(std::size_t bytes) {
  make_room(bytes);
  if (used_ + bytes > size_) return nullptr;  // then it goes without
  std::byte* const data = chunks_.back() + used_;
  used_ += bytes;
  return data;
}

void BiasCopies::make_room(std::size_t bytes) {
  if (used_ + bytes <= size_) return;
  const std::size_t size = std::max(kChunk, bytes);
  std::byte* const chunk = runtime_->allocate(size);
  if (chunk == nullptr) return;
  chunks_.push_back(chunk);
  size_ = size;
  used_ = 0;
}

}  // namespace saccade::cuda
