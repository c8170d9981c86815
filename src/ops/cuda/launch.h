// What the launches of nvcc's objects call of the CUDA runtime's state.
#pragma once

#include <cstddef>

namespace saccade::cuda {

// Lets `kernel` have that much dynamic shared memory, if it is more than any may have.
void allow_shared(const void* kernel, std::size_t bytes);
// CHECKs that the launch before it was accepted: a refused one is a bug of its launcher.
void check_launch(const char* kernel);

}  // namespace saccade::cuda
