#include "ops/cuda/emulated_stream.h"

#include <utility>

namespace saccade::emulator {

void enqueue(cudaStream_t stream, std::function<void()> work) {
  static_cast<void>(stream);
  work();
}

}  // namespace saccade::emulator
