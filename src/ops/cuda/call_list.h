// Launches with their arguments, kept instead of made: to be made later, and to be compared with
// those of another time.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace saccade::cuda {

class CallList {
 public:
  template <typename Args>
  void add(void (*launch)(const Args&, cudaStream_t), const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args> && alignof(Args) <= kAlign);
    const std::size_t at = bytes_.size();
    bytes_.resize(at + (sizeof(Args) + kAlign - 1) / kAlign * kAlign);
    Args* const copy = new (bytes_.data() + at) Args(args);
    // Two of the same members are the same bytes.
    clear_padding(*copy);
    calls_.push_back({[](void (*with)(), const std::byte* of, cudaStream_t stream) {
                        reinterpret_cast<void (*)(const Args&, cudaStream_t)>(with)(
                            *std::launder(reinterpret_cast<const Args*>(of)), stream);
                      },
                      reinterpret_cast<void (*)()>(launch), at});
  }

  void launch_all(cudaStream_t stream) const {
    for (const Call& call : calls_) call.invoke(call.launch, bytes_.data() + call.at, stream);
  }
  std::size_t size() const { return calls_.size(); }
  bool empty() const { return calls_.empty(); }
  void clear() {
    calls_.clear();
    bytes_.clear();
  }
  // The same launches in the same order, argument for argument: addresses too.
  bool operator==(const CallList& other) const {
    return calls_ == other.calls_ && bytes_ == other.bytes_;
  }

 private:
  static constexpr std::size_t kAlign = 16;
  struct Call {
    void (*invoke)(void (*)(), const std::byte*, cudaStream_t);
    void (*launch)();
    std::size_t at;  // of its arguments in bytes_
    bool operator==(const Call&) const = default;
  };

  template <typename Args>
  static void clear_padding([[maybe_unused]] Args& args) {
    // Without it equal calls may look unequal, which costs a graph and nothing else.
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&args);
#endif
#endif
  }

  std::vector<Call> calls_;
  std::vector<std::byte> bytes_;  // 16-byte aligned by the heap
};

}  // namespace saccade::cuda
