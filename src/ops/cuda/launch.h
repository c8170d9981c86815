// What the launches of nvcc's objects call of the CUDA runtime's state.
#pragma once

#include <cstddef>

namespace saccade::cuda {

// Lets `kernel` have that much dynamic shared memory, if it is more than any may have.
void allow_shared(const void* kernel, std::size_t bytes);
// Throws DeviceFailed where the launch before it was not accepted, or where something that ran
// before it has gone wrong.
void check_launch(const char* kernel);

}  // namespace saccade::cuda
