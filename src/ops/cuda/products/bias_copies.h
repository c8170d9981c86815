// Biases in bf16, as a library's products take them: copies of those in f32 that bf16 holds
// exactly. Which do is seen once, when a bias is first asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/cuda/runtime.h"

namespace saccade::cuda {

// By the address of what was copied. Buffers forget() theirs from any thread.
class BiasCopies {
 public:
  explicit BiasCopies(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  ~BiasCopies();
  BiasCopies(const BiasCopies&) = delete;
  BiasCopies& operator=(const BiasCopies&) = delete;

  // Takes memory for as many as models have, so that add() takes none in the middle of a step.
  void reserve();

  struct Copy {
    std::byte* data = nullptr;  // 256-byte aligned; null: bf16 does not hold the bias
  };
  // Nothing: it is not known.
  std::optional<Copy> find(const float* bias, std::int64_t outputs) const;
  // Of a bias with these values; its place is the caller's to write, if it has one.
  Copy add(const float* bias, std::span<const float> values);
  // What lies in [begin, begin + bytes) is no longer what it was.
  void forget(const void* begin, std::size_t bytes);

 private:
  struct Known {
    std::int64_t outputs = 0;
    Copy copy;
  };
  std::byte* take(std::size_t bytes);
  void make_room(std::size_t bytes);  // in the last chunk

  std::shared_ptr<Runtime> runtime_;
  mutable std::mutex mutex_;
  std::map<const float*, Known> known_;
  std::vector<std::byte*> chunks_;
  std::size_t size_ = 0;  // of the last one
  std::size_t used_ = 0;
};

}  // namespace saccade::cuda
