// Sums over ranks: what ends a product whose inputs are split between them (tensor parallelism).
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace saccade {

class Stream;

// One rank's end. Its calls are its own thread's but where they say otherwise.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // x := the sum of every rank's x, the same bits on all of them: of what `stream` was given
  // before, for what it is given after. f32 of the same extents on all ranks, or on a GPU its
  // activations' type; of memory of the stream's device. Every rank makes the same calls in the
  // same order. Where ranks wait for each other is the implementation's: in the call, or in the
  // stream. Once status() is an error, x is of no meaning.
  virtual void all_reduce(View x, Stream& stream) = 0;

  // For a rank that cannot go on: no rank waits any more for what the others will not do, now or
  // later. From any thread, also while others are in calls; the first reason stays.
  virtual void abort(Error why) = 0;
  // An error once this rank's sums have failed, or some rank has given up. From any thread.
  virtual Result<void> status() const = 0;
};

// Ranks that are threads of this process, in host memory; sums are added up in the order of ranks.
// Element r is for rank r; any of them may be destroyed first.
std::vector<std::unique_ptr<Collective>> make_thread_collectives(int ranks);

}  // namespace saccade
