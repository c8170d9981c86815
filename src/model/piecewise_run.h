// An encoding whose stages can be cut: on a device that computes during the call, a layer of a
// large picture takes tens of seconds, and nobody else's step can run meanwhile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "model/network.h"

namespace saccade {

// Kinds of work that go at rates of their own.
enum class WorkKind : std::uint8_t { kProducts, kAttention };
constexpr std::size_t kWorkKinds = 2;

// Of each kind: multiply-adds, or what takes as long.
using WorkCost = std::array<double, kWorkKinds>;

// What advance_piece() did.
struct Piece {
  WorkCost cost = {};
  bool stage_ends = false;
  bool complete = false;  // as EncodeRun::advance()
};

class PiecewiseRun : public EncodeRun {
 public:
  // Some more of the stage in progress, or of the next: what takes `seconds` at these rates (costs
  // a second), and at the least one unit of work. The embeddings are those of advance(), bit for
  // bit, wherever the cuts are.
  virtual Result<Piece> advance_piece(const WorkCost& rates, double seconds) = 0;
};

}  // namespace saccade
