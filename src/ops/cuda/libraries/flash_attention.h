// Attention by a library's kernels, where they are better than the own one: FlashInfer's FA3, which
// multiplies by Hopper's wgmma, for chunks and segments of many rows. It is behind an interface so
// that tests can put one in its place, and is used as far as a probe at start has found that it
// does what is said here.
//
// Bits. A tile of queries is walked by one thread block: over tiles of keys that begin at multiples
// of key_rows of the sequence's own tokens, from the last that any of its rows sees down to the
// first, each row with a maximum, a sum and f32 results of its own. Tiles that a row sees nothing
// of multiply its state, which is empty, by zero. So a row's bits follow from its own sequence and
// position: not from who else is in the call, which block does the tile, or where in a tile the row
// stands, and hence not from where its chunk begins. They are not the own kernel's bits: which of
// the two a row gets follows from the number of its own sequence's rows in the call alone.
//
// Weights of keys outside are zeros, and zero times what is no number is none: over pages those
// keys are read as zeros, but over rows they are the next segment's values. A segment whose values
// are infinite or NaN spoils the one before it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/cuda/libraries/flash_kernels.h"

namespace saccade::cuda {

// One thread calls.
class FlashAttention {
 public:
  virtual ~FlashAttention() = default;

  virtual std::string description() const = 0;  // "FlashInfer 0.7.2"
  virtual std::span<const FlashForm> forms() const = 0;
  virtual int blocks() const = 0;  // that a launch has, and lists are for
  // bf16 throughout; q, k, v and out begin 16-byte aligned, and so do each of their rows and heads,
  // and each block of the pool. Into the stream. False: nothing was submitted.
  virtual bool launch(const FlashArgs& args, cudaStream_t stream) = 0;
};

// The least rows of a sequence's chunk, or of a segment.
constexpr std::int64_t kFlashRows = 128;

// What a device has of it. Without a library: nothing.
struct FlashUse {
  std::unique_ptr<FlashAttention> library = nullptr;
  std::vector<FlashForm> forms = {};  // that do what they should
  std::int64_t least_rows = kFlashRows;
  bool probing = false;  // then a launch that is refused is noted; afterwards it is a bug
  bool refused = false;

  // Null: there is none.
  const FlashForm* form(bool paged, std::int64_t head_dim) const {
    for (const FlashForm& each : forms)
      if (each.paged == paged && each.head_dim == head_dim) return &each;
    return nullptr;
  }
};

// FlashInfer's on this GPU. kUnsupported: not in this build, or the GPU is of another kind.
Result<std::unique_ptr<FlashAttention>> open_flashinfer(int device);

}  // namespace saccade::cuda
