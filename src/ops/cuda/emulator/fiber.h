// A stack of its own to run a function on, switched to and back by hand; the sanitizers are told of
// each switch. For the emulator alone.
#pragma once

#include <cstddef>
#include <functional>

namespace saccade::emulator {

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

  std::byte* stack_;
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

}  // namespace saccade::emulator
