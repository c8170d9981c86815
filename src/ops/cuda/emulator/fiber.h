// A stack of its own to run a function on, switched to and back by hand; the sanitizers are told of
// each switch. For the emulator alone.
#pragma once

#include <cstddef>
#include <functional>

#if SACCADE_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#if SACCADE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace saccade::emulator {

// Leaves this stack, whose pointer is kept in `keep`, for `other`, which was left so.
#if defined(__x86_64__)
// swapcontext would make a system call each time. Neither a call nor a return: the fibers of a
// kernel wait at the same depth of the same calls, so that the processor, which takes each return
// to be from its latest call, mostly guesses right.
[[gnu::always_inline]] inline void swap_stacks(void** keep, void* other) {
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n"  // what a function may use below its stack's end
      "pushq %%rbp\n"
      "pushq %%rbx\n"
      "leaq 1f(%%rip), %%rax\n"
      "pushq %%rax\n"
      "movq %%rsp, (%%rdi)\n"
      "movq %%rsi, %%rsp\n"
      "popq %%rax\n"
      "jmp *%%rax\n"
      "1:\n"
      "popq %%rbx\n"
      "popq %%rbp\n"
      "leaq 128(%%rsp), %%rsp\n"
      : "+D"(keep), "+S"(other)
      :
      : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
        "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15", "memory", "cc");
}
#else
void swap_stacks(void** keep, void* other);
#endif

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next resume() begin `body` anew. Nothing may be suspended in it.
  void start(const std::function<void()>* body);
  // From the outside: runs until pause() or the end of the body.
  void resume();
  // From within.
  void pause();
  bool finished() const { return finished_; }

 private:
  [[noreturn]] static void enter(Fiber* self);
  friend void fiber_entry(Fiber* self);
  static constexpr std::size_t kStackBytes = 256 * 1024;
  // Stacks that all began at one place of a page would share a few sets of the caches.
  static constexpr std::size_t kColours = 61;
  static constexpr std::size_t kColourBytes = 1088;  // a multiple of 64, not of 128

  std::byte* stack_;
  std::size_t first_;  // bytes of it that are used, from its lower end
  const std::function<void()>* body_ = nullptr;
  void* inside_ = nullptr;   // its stack pointer, or its context, while it is not running
  void* outside_ = nullptr;  // that of whoever resumed it
  bool finished_ = true;
  // What the sanitizers want to know.
  void* fake_inside_ = nullptr;
  void* fake_outside_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
  void* thread_inside_ = nullptr;
  void* thread_outside_ = nullptr;
};

inline void Fiber::resume() {
#if SACCADE_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&fake_outside_, stack_, kStackBytes);
#endif
#if SACCADE_THREAD_SANITIZER
  thread_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_inside_, __tsan_switch_to_fiber_no_sync);
#endif
  swap_stacks(&outside_, inside_);
#if SACCADE_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_outside_, nullptr, nullptr);
#endif
}

inline void Fiber::pause() {
#if SACCADE_ADDRESS_SANITIZER
  // No fake stack to keep when it will not come back.
  __sanitizer_start_switch_fiber(finished_ ? nullptr : &fake_inside_, outside_stack_,
                                 outside_bytes_);
#endif
#if SACCADE_THREAD_SANITIZER
  __tsan_switch_to_fiber(thread_outside_, __tsan_switch_to_fiber_no_sync);
#endif
  swap_stacks(&inside_, outside_);
#if SACCADE_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_inside_, &outside_stack_, &outside_bytes_);
#endif
}

}  // namespace saccade::emulator
