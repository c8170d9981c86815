// cuBLASLt as a ProductLibrary.
#pragma once

#include <memory>

#include "base/result.h"
#include "ops/cuda/libraries/library_places.h"
#include "ops/cuda/libraries/product_library.h"

namespace saccade::cuda {

// kNotFound: a function is missing. kUnsupported: it is too old, or finds no GPU. On the device
// that the thread has selected. `splits`: algorithms may cut sums into a fixed number of pieces,
// which are added up in f32 and in one order by a kernel of their own.
Result<std::unique_ptr<ProductLibrary>> open_cublaslt(OpenedLibrary library, bool splits = false);

// The file's name.
constexpr const char* kCublasLtFile = "libcublasLt.so.13";

}  // namespace saccade::cuda
