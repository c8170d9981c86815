// How fast this machine reads memory: the roof of whatever reads each weight once a token.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "base/threads/thread_pool.h"

namespace saccade::cpu {

// Bytes a second that all threads of the pool read together, in runs of about a millisecond over
// `bytes` of memory, each part once, as a decode step reads its weights: a few times what the
// caches hold, so that little is cached. The best run: a roof is what the machine can do, so a
// neighbour's noise must not lower it. kExhausted where there is not so much memory.
Result<double> measure_read_bandwidth(ThreadPool& pool, std::size_t bytes = std::size_t{1} << 29);

}  // namespace saccade::cpu
