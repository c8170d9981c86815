// Where every byte of the pool is. The eight terms add up to the pool, always; tests assert it each
// step and /metrics shows it.
#pragma once

#include <cstdint>

namespace saccade {

class KvAllocator;
class EmbeddingStore;

// Bytes.
struct MemoryUse {
  std::int64_t useful = 0;    // rows that a running sequence can still read
  std::int64_t tail = 0;      // rows of held blocks that hold nothing yet
  std::int64_t slack = 0;     // free small pages inside partly used large pages
  std::int64_t pad = 0;       // padding of pages, and the rest of the pool that makes no large page
  std::int64_t overhold = 0;  // rows held that nothing reads: outside the window, of the wrong kind
  std::int64_t reserve = 0;   // set aside at start and not in use
  std::int64_t cached = 0;    // evictable: a later request may read it
  std::int64_t free = 0;      // whole large pages
  std::int64_t total() const {
    return useful + tail + slack + pad + overhold + reserve + cached + free;
  }
  MemoryUse& operator+=(const MemoryUse& other);
};

// Exact: visits every held block. total() == pool bytes.
MemoryUse measure(const KvAllocator& allocator);
MemoryUse measure(const EmbeddingStore& store);

}  // namespace saccade
