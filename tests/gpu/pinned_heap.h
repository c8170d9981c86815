// For the suite of the ops on a GPU alone: from start() on, what `new` gives this program is pinned
// memory of the host, at the same address for kernels. So the tests' own vectors are operands, and
// their sources know nothing of it. pinned_heap.cc replaces operator new of the program that it is
// linked into.
#pragma once

#include "base/result.h"

namespace saccade::cuda {

// Takes 1 GiB of pinned memory; what does not fit comes from the ordinary heap. kUnsupported
// without a GPU. Once.
Result<void> start_pinned_heap();

}  // namespace saccade::cuda
