// Matrices of a device for the host to look at: tests, taps, and what is sampled here.
#pragma once

#include "ops/device.h"

namespace saccade {

// `from` itself where the host can read it, else its download into `staging`, which is replaced
// when it is too small. Waits for the stream.
Result<View> readable(Stream& stream, View from, Buffer& staging);

}  // namespace saccade
