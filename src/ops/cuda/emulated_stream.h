// The emulator's stream: what is put into it runs in order, at the latest when it is waited for.
#pragma once

#include <functional>
#include <tuple>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace saccade::emulator {

// A null stream runs its work at once.
void enqueue(cudaStream_t stream, std::function<void()> work);

}  // namespace saccade::emulator
