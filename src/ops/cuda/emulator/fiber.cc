#include "ops/cuda/emulator/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "base/check.h"

#if SACCADE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if SACCADE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace saccade::emulator {

void fiber_entry(Fiber* self) { Fiber::enter(self); }

#if defined(__x86_64__)

// Where a fiber begins, with first_frame's stack under it.
asm(R"(
.text
.type saccade_fiber_begin, @function
saccade_fiber_begin:
  popq %rdi
  popq %rax
  xorl %ebp, %ebp
  call *%rax
  ud2
.size saccade_fiber_begin, .-saccade_fiber_begin
)");
extern "C" void saccade_fiber_begin();

namespace {

void* first_frame(std::byte* stack, std::size_t bytes, Fiber* self) {
  auto** top = reinterpret_cast<void**>(stack + bytes);
  *--top = reinterpret_cast<void*>(&fiber_entry);
  *--top = self;
  *--top = reinterpret_cast<void*>(&saccade_fiber_begin);
  return top;
}

}  // namespace

#else

namespace {

void enter_context(unsigned low, unsigned high) {
  fiber_entry(reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low));
}

void* first_frame(std::byte* stack, std::size_t bytes, Fiber* self) {
  // The context lies at the far end of the stack, which nothing else reaches.
  auto* context = new (stack) ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack + sizeof(ucontext_t);
  context->uc_stack.ss_size = bytes - sizeof(ucontext_t);
  context->uc_link = nullptr;
  const auto bits = reinterpret_cast<std::uintptr_t>(self);
  makecontext(context, reinterpret_cast<void (*)()>(&enter_context), 2, static_cast<unsigned>(bits),
              static_cast<unsigned>(bits >> 32));
  return context;
}

}  // namespace

void swap_stacks(void** keep, void* other) {
  ucontext_t here;
  *keep = &here;
  swapcontext(&here, static_cast<ucontext_t*>(other));
}

#endif

Fiber::Fiber() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED, "no memory for a stack of {} bytes", kStackBytes);
  stack_ = static_cast<std::byte*>(memory);
  static std::atomic<std::size_t> made;
  first_ = kStackBytes - made++ % kColours * kColourBytes;
}

Fiber::~Fiber() {
#if SACCADE_ADDRESS_SANITIZER
  // The macro of that name is empty here: this file is not instrumented.
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
#if SACCADE_THREAD_SANITIZER
  if (thread_inside_ != nullptr) __tsan_destroy_fiber(thread_inside_);
#endif
  munmap(stack_, kStackBytes);
}

void Fiber::start(const std::function<void()>* body) {
  CHECK(finished_, "a fiber is started twice");
  body_ = body;
  finished_ = false;
  inside_ = first_frame(stack_, first_, this);
#if SACCADE_THREAD_SANITIZER
  if (thread_inside_ == nullptr) thread_inside_ = __tsan_create_fiber(0);
#endif
}

void Fiber::enter(Fiber* self) {
#if SACCADE_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack_, &self->outside_bytes_);
#endif
  (*self->body_)();
  self->finished_ = true;
  self->pause();
  __builtin_unreachable();
}

}  // namespace saccade::emulator
