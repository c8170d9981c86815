// The decoder's whole life: orders from descriptor 0, the file in descriptor 3, answers to
// descriptor 1 (wire.h).
#pragma once

namespace saccade::video {

// The status to end with. By _exit: nothing that runs at a usual end may be asked of the kernel.
int decode_as_ordered();

}  // namespace saccade::video
