// Sums over ranks: what ends a product whose inputs are split between them (tensor parallelism).
#pragma once

#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace saccade {

// One rank's end. Its calls are its own thread's; what it is given must be finished (synchronize())
// before a call and may be read after it.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // x := the sum of every rank's x, added up in the order of ranks: the same bits everywhere. f32
  // of the same extents on all ranks. Every rank makes the same calls in the same order; a call
  // ends when all have.
  virtual void all_reduce(View x) = 0;
};

// Ranks that are threads of this process, in host memory. Element r is for rank r; any of them may
// be destroyed first.
std::vector<std::unique_ptr<Collective>> make_thread_collectives(int ranks);

}  // namespace saccade
