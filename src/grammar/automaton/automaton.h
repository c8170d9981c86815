// A grammar compiled: frames of states over bytes, where a state may also call another frame and go
// on when that one has ended. A pushdown automaton; each frame is deterministic in its bytes unless
// that would take too many states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"

namespace saccade::grammar {

using StateId = std::uint32_t;
using FrameId = std::uint32_t;

struct ByteEdge {
  std::uint8_t first = 0;
  std::uint8_t last = 0;
  StateId target = 0;
};

struct CallEdge {
  FrameId frame = 0;
  StateId target = 0;  // where the caller goes on
};

struct State {
  std::vector<ByteEdge> bytes;  // by `first`
  std::vector<CallEdge> calls;
  FrameId frame = 0;
  bool final = false;  // the frame may end here; in a counted frame: a lap may
  // Frames that must lie on this one's, one on another, before it can end; at least, and counting a
  // last call, which takes no room.
  std::uint32_t need = 0;

  // Nothing but the end is left.
  bool only_final() const { return final && bytes.empty() && calls.empty(); }
};

// A counted frame matches its states' language `min` to `max` times, one lap after another; its
// start has no edges into it and is not final.
struct Frame {
  StateId start = 0;
  bool counted = false;
  bool has_calls = false;
  std::uint32_t min = 1;
  std::uint32_t max = 1;  // kUnbounded
  std::string name;       // of the rule that it is of
};

// Immutable; any thread.
class Automaton {
 public:
  // How deeply frames may have to nest before anything can end.
  static constexpr std::uint32_t kMaxNeed = 500;

  // kInvalid: a rule that is not defined, left recursion that is not direct, or a grammar that no
  // finite text matches; kTooLarge: the grammar's budget is spent, or over kMaxNeed.
  static Result<Automaton> compile(Grammar grammar);

  const State& state(StateId id) const { return states_[id]; }
  const Frame& frame(FrameId id) const { return frames_[id]; }
  std::size_t states() const { return states_.size(); }
  std::size_t frames() const { return frames_.size(); }
  FrameId root() const { return 0; }
  // Of everything above, roughly.
  std::size_t bytes() const;

 private:
  std::vector<State> states_;
  std::vector<Frame> frames_;
};

}  // namespace saccade::grammar
