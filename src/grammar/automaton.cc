#include "grammar/automaton.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "grammar/frame_builder.h"

namespace saccade::grammar {
namespace {

// Takes out what can never end: edges to states from which their frame's end is not reached. Linear
// in the edges.
class Trimmer {
 public:
  Trimmer(std::vector<State>& states, const std::vector<Frame>& frames)
      : states_(states),
        frames_(frames),
        alive_(states.size()),
        ends_(frames.size()),
        sources_(states.size()),
        callers_(frames.size()),
        starts_(states.size(), kNone) {}

  // False when the root never ends.
  bool trim() {
    for (StateId id = 0; id < states_.size(); ++id) {
      for (const ByteEdge& edge : states_[id].bytes) sources_[edge.target].push_back(id);
      for (const CallEdge& call : states_[id].calls) {
        sources_[call.target].push_back(id);
        callers_[call.frame].push_back(id);
      }
    }
    for (FrameId id = 0; id < frames_.size(); ++id) starts_[frames_[id].start] = id;
    for (FrameId id = 0; id < frames_.size(); ++id) {
      if (frames_[id].counted && frames_[id].min == 0) end(id);
    }
    for (StateId id = 0; id < states_.size(); ++id) {
      if (states_[id].final) revive(id);
    }
    while (!open_.empty()) {
      const StateId id = open_.back();
      open_.pop_back();
      if (starts_[id] != kNone) end(starts_[id]);
      for (const StateId source : sources_[id]) check(source);
    }
    for (State& state : states_) {
      std::erase_if(state.bytes, [&](const ByteEdge& edge) { return !alive_[edge.target]; });
      std::erase_if(state.calls, [&](const CallEdge& call) {
        return !alive_[call.target] || !ends_[call.frame];
      });
    }
    return ends_[0];
  }

 private:
  static constexpr FrameId kNone = 0xFFFFFFFF;

  void revive(StateId id) {
    if (alive_[id]) return;
    alive_[id] = 1;
    open_.push_back(id);
  }
  void end(FrameId id) {
    if (ends_[id]) return;
    ends_[id] = 1;
    for (const StateId caller : callers_[id]) check(caller);
  }
  void check(StateId id) {
    if (alive_[id]) return;
    const State& state = states_[id];
    const bool lives =
        std::any_of(state.bytes.begin(), state.bytes.end(),
                    [&](const ByteEdge& edge) { return alive_[edge.target] != 0; }) ||
        std::any_of(state.calls.begin(), state.calls.end(), [&](const CallEdge& call) {
          return alive_[call.target] != 0 && ends_[call.frame] != 0;
        });
    if (lives) revive(id);
  }

  std::vector<State>& states_;
  const std::vector<Frame>& frames_;
  std::vector<char> alive_;
  std::vector<char> ends_;
  std::vector<std::vector<StateId>> sources_;
  std::vector<std::vector<StateId>> callers_;
  std::vector<FrameId> starts_;  // by state: the frame that starts there
  std::vector<StateId> open_;
};

// Frames that can be reached from others without a byte; a cycle of them is left recursion.
class LeftCalls {
 public:
  LeftCalls(const std::vector<State>& states, const std::vector<Frame>& frames)
      : states_(states), frames_(frames), empty_(frames.size()) {
    // Callees mostly have the larger numbers, so that one round settles nearly all.
    for (bool changed = true; changed;) {
      changed = false;
      for (auto id = static_cast<FrameId>(frames_.size()); id-- > 0;) {
        if (empty_[id]) continue;
        const std::vector<StateId> reached = without_bytes(id);
        const bool ends = (frames_[id].counted && frames_[id].min == 0) ||
                          std::any_of(reached.begin(), reached.end(),
                                      [&](StateId state) { return states_[state].final; });
        if (!ends) continue;
        empty_[id] = 1;
        changed = true;
      }
    }
  }

  // A frame on a cycle, or nothing.
  const Frame* find_cycle() const {
    enum : char { kNew, kOpen, kDone };
    std::vector<char> mark(frames_.size(), kNew);
    std::vector<std::pair<FrameId, std::vector<FrameId>>> path;
    for (FrameId from = 0; from < frames_.size(); ++from) {
      if (mark[from] != kNew) continue;
      mark[from] = kOpen;
      path.emplace_back(from, called(from));
      while (!path.empty()) {
        if (path.back().second.empty()) {
          mark[path.back().first] = kDone;
          path.pop_back();
          continue;
        }
        const FrameId next = path.back().second.back();
        path.back().second.pop_back();
        if (mark[next] == kOpen) return &frames_[next];
        if (mark[next] == kDone) continue;
        mark[next] = kOpen;
        path.emplace_back(next, called(next));
      }
    }
    return nullptr;
  }

 private:
  // States of the frame reached from its start without a byte.
  std::vector<StateId> without_bytes(FrameId id) const {
    std::vector<StateId> reached{frames_[id].start};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (const CallEdge& call : states_[reached[i]].calls) {
        if (!empty_[call.frame]) continue;
        if (std::find(reached.begin(), reached.end(), call.target) == reached.end()) {
          reached.push_back(call.target);
        }
      }
    }
    return reached;
  }
  std::vector<FrameId> called(FrameId id) const {
    std::vector<FrameId> frames;
    for (const StateId state : without_bytes(id)) {
      for (const CallEdge& call : states_[state].calls) frames.push_back(call.frame);
    }
    std::sort(frames.begin(), frames.end());
    frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
    return frames;
  }

  const std::vector<State>& states_;
  const std::vector<Frame>& frames_;
  std::vector<char> empty_;
};

Result<void> check_rules(const Grammar& grammar) {
  TRY_DO(grammar.check_size());
  for (RuleId id = 0; id < grammar.rules(); ++id) {
    if (!grammar.rule(id).defined) {
      return fail(ErrorCode::kInvalid, "the grammar uses '{}' and does not define it",
                  grammar.rule(id).name);
    }
  }
  return {};
}

void append_states(std::vector<State>&& built, FrameId id, Frame& frame,
                   std::vector<State>& states) {
  const auto offset = static_cast<StateId>(states.size());
  frame.start = offset;
  if (frame.counted && built[0].final) {  // laps of no bytes are not counted
    built[0].final = false;
    frame.min = 0;
  }
  for (State& state : built) {
    state.frame = id;
    for (ByteEdge& edge : state.bytes) edge.target += offset;
    for (CallEdge& call : state.calls) call.target += offset;
    frame.has_calls |= !state.calls.empty();
    states.push_back(std::move(state));
  }
}

}  // namespace

Result<Automaton> Automaton::compile(Grammar grammar) {
  TRY_DO(check_rules(grammar));
  grammar.remove_direct_left_recursion();
  const Inlining inlining(grammar);

  Automaton automaton;
  std::map<FrameRequest, FrameId> numbers;
  std::deque<FrameRequest> requests;
  const auto number = [&](const FrameRequest& request) {
    const auto [found, fresh] =
        numbers.try_emplace(request, static_cast<FrameId>(automaton.frames_.size()));
    if (fresh) {
      Frame frame;
      frame.counted = request.counted;
      frame.min = request.min;
      frame.max = request.max;
      frame.name = grammar.rule(request.rule).name;
      automaton.frames_.push_back(std::move(frame));
      requests.push_back(request);
    }
    return found->second;
  };
  FrameBuilder builder(grammar, inlining, number);
  number({grammar.rule(grammar.root()).body, false, 1, 1, grammar.root()});
  for (FrameId id = 0; !requests.empty(); ++id) {
    const FrameRequest request = requests.front();
    requests.pop_front();
    TRY(std::vector<State> built,
        builder.build(request, kMaxStates - std::min(kMaxStates, automaton.states_.size())));
    append_states(std::move(built), id, automaton.frames_[id], automaton.states_);
  }
  if (!Trimmer(automaton.states_, automaton.frames_).trim()) {
    return fail(ErrorCode::kInvalid, "no finite text matches the grammar");
  }
  if (const Frame* frame = LeftCalls(automaton.states_, automaton.frames_).find_cycle()) {
    return fail(ErrorCode::kInvalid,
                "the grammar's rule '{}' calls itself, through others, before any text: write "
                "left recursion as 'a ::= b c*'",
                frame->name);
  }
  return automaton;
}

std::size_t Automaton::bytes() const {
  std::size_t total = frames_.size() * sizeof(Frame);
  for (const State& state : states_) {
    total += sizeof(State) + state.bytes.size() * sizeof(ByteEdge) +
             state.calls.size() * sizeof(CallEdge);
  }
  return total;
}

}  // namespace saccade::grammar
