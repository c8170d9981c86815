#include "tests/gpu/pinned_heap.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#include "ops/cuda/gpu_runtime.h"

namespace saccade::cuda {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 30;
constexpr std::size_t kLeast = 64;         // of a block, and its alignment
constexpr std::size_t kMaxAligned = 4096;  // blocks of this size and above are aligned to it

// Blocks of powers of two; one that is freed is given to the next of its size.
class PinnedHeap {
 public:
  void start(std::byte* data) {
    const std::lock_guard lock(mutex_);
    begin_ = data;
    next_ = data;
    end_ = data + kBytes;
  }
  // Null: not started, or full.
  void* take(std::size_t bytes, std::size_t alignment) {
    const std::size_t size = std::bit_ceil(std::max({bytes, alignment, kLeast}));
    if (alignment > kMaxAligned || size > kBytes / 2) return nullptr;
    const std::lock_guard lock(mutex_);
    if (begin_ == nullptr) return nullptr;
    Free*& list = free_[static_cast<std::size_t>(std::countr_zero(size))];
    if (list != nullptr) {
      Free* const block = list;
      list = block->next;
      return block;
    }
    // The size of a block stands before it; both are whole multiples of the alignment.
    const std::size_t aligned = std::min(size, kMaxAligned);
    const auto at =
        (reinterpret_cast<std::uintptr_t>(next_) + kSizeBytes + aligned - 1) / aligned * aligned;
    auto* const block = reinterpret_cast<std::byte*>(at);
    if (block + size > end_) return nullptr;
    *reinterpret_cast<std::size_t*>(block - kSizeBytes) = size;
    next_ = block + size;
    return block;
  }
  bool give(void* block) {
    auto* const at = static_cast<std::byte*>(block);
    if (begin_ == nullptr || at < begin_ || at >= end_) return false;
    const std::lock_guard lock(mutex_);
    const std::size_t size = *reinterpret_cast<std::size_t*>(at - kSizeBytes);
    Free*& list = free_[static_cast<std::size_t>(std::countr_zero(size))];
    list = new (block) Free{list};
    return true;
  }

 private:
  static constexpr std::size_t kSizeBytes = sizeof(std::size_t);
  struct Free {
    Free* next;
  };
  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::array<Free*, 64> free_{};
};

constinit PinnedHeap heap;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (void* const block = heap.take(bytes, alignment)) return block;
  const std::size_t least = std::max<std::size_t>(bytes, 1);
  void* const block =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(least)
          : std::aligned_alloc(alignment, (least + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block) noexcept {
  if (block != nullptr && !heap.give(block)) std::free(block);
}

}  // namespace

Result<void> start_pinned_heap() {
  TRY(const std::unique_ptr<Runtime> runtime, make_gpu_runtime(0));
  std::byte* const data = runtime->allocate_pinned(kBytes);  // never given back
  if (data == nullptr) return fail(ErrorCode::kExhausted, "no {} bytes of pinned memory", kBytes);
  heap.start(data);
  return {};
}

}  // namespace saccade::cuda

void* operator new(std::size_t bytes) {
  return saccade::cuda::allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return saccade::cuda::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept { saccade::cuda::release(block); }
void operator delete(void* block, std::size_t) noexcept { saccade::cuda::release(block); }
void operator delete(void* block, std::align_val_t) noexcept { saccade::cuda::release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  saccade::cuda::release(block);
}
