// The emulator's streams and events: what is put into a stream runs in order, at the latest when it
// is waited for.
#pragma once

#include <functional>
#include <memory>
#include <tuple>

#include "ops/cuda/runtime.h"

namespace saccade::emulator {

// A null stream runs its work at once.
void enqueue(cudaStream_t stream, std::function<void()> work);

// For work that waits for other threads. Where streams run late it does not run during a call that
// submits or asks, but when somebody waits for what it is before.
void enqueue_later(cudaStream_t stream, std::function<void()> work);

// What goes wrong with an emulated device, from the moment that a test says so.
struct EmulatedFault {
  enum class Kind : std::uint8_t {
    kNone,
    kRefusedLaunch,  // something that is submitted
    kBadAddress,     // something that runs; from then on every call fails
    kNoMemory,       // an allocation of the device
  };
  Kind kind = Kind::kNone;
  std::int64_t after = 0;  // so many that go well
};

struct EmulatedSettings {
  // Late: work waits in its stream until somebody waits for it, streams in a random legal order;
  // now and then some of it runs before. Otherwise during the call.
  bool late = true;
  std::uint64_t seed = 1;
  // kDevice: the host may not read what allocate() gives. Under AddressSanitizer it is told if it
  // does (but where a kernel of a test runs).
  Space space = Space::kDevice;
  // That the device has; 0: as many as the host has, and it does not say how many.
  std::int64_t total_bytes = 0;
  std::shared_ptr<EmulatedFault> fault = nullptr;
};
std::unique_ptr<cuda::Runtime> make_emulated_runtime(const EmulatedSettings& settings);

}  // namespace saccade::emulator
