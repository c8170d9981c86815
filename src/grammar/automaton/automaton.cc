#include "grammar/automaton/automaton.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "grammar/automaton/frame_builder.h"

namespace saccade::grammar {
namespace {

// Takes out what can never end: edges to states from which their frame's end is not reached. What
// is left learns how deep it must nest to end: states are met in the order of that depth.
class Trimmer {
 public:
  Trimmer(std::vector<State>& states, const std::vector<Frame>& frames, Budget& budget)
      : states_(states),
        frames_(frames),
        budget_(budget),
        alive_(states.size()),
        needs_(frames.size(), kNever),
        sources_(states.size()),
        callers_(frames.size()),
        starts_(states.size(), kNone) {}

  // False when the root never ends, or the budget is spent.
  bool trim() {
    link();
    for (FrameId id = 0; id < frames_.size(); ++id) {
      if (frames_[id].counted && frames_[id].min == 0) end(id, 0);
    }
    for (StateId id = 0; id < states_.size(); ++id) {
      if (states_[id].final) meet(id, 0);
    }
    for (std::uint32_t need = 0; need < open_.size(); ++need) {
      for (std::size_t i = 0; i < open_[need].size(); ++i) {
        const StateId id = open_[need][i];
        if (alive_[id]) continue;
        alive_[id] = 1;
        states_[id].need = need;
        if (starts_[id] != kNone) end(starts_[id], need);
        for (const StateId source : sources_[id]) check(source, need);
      }
    }
    for (State& state : states_) {
      std::erase_if(state.bytes, [&](const ByteEdge& edge) { return !alive_[edge.target]; });
      std::erase_if(state.calls, [&](const CallEdge& call) {
        return !alive_[call.target] || needs_[call.frame] == kNever;
      });
      // A lap may have to be done again.
      const Frame& frame = frames_[state.frame];
      if (frame.counted && frame.min > 1) {
        state.need = std::max(state.need, states_[frame.start].need);
      }
    }
    return !budget_.spent() && needs_[0] != kNever;
  }

 private:
  static constexpr FrameId kNone = 0xFFFFFFFF;
  static constexpr std::uint32_t kNever = 0xFFFFFFFF;

  void link() {
    for (StateId id = 0; id < states_.size(); ++id) {
      const std::size_t edges = states_[id].bytes.size() + states_[id].calls.size();
      if (!budget_.charge(Budget::kSteps, 1 + edges)) return;
      for (const ByteEdge& edge : states_[id].bytes) sources_[edge.target].push_back(id);
      for (const CallEdge& call : states_[id].calls) {
        sources_[call.target].push_back(id);
        callers_[call.frame].push_back(id);
      }
    }
    for (FrameId id = 0; id < frames_.size(); ++id) starts_[frames_[id].start] = id;
  }
  void meet(StateId id, std::uint32_t need) {
    if (alive_[id]) return;
    if (open_.size() <= need) open_.resize(need + 1);
    open_[need].push_back(id);
  }
  void end(FrameId id, std::uint32_t need) {
    if (needs_[id] != kNever) return;
    needs_[id] = need;
    for (const StateId caller : callers_[id]) check(caller, need);
  }
  // Something that `id` leads to can end, having nested `need` deep at the most.
  void check(StateId id, std::uint32_t need) {
    if (alive_[id]) return;
    const State& state = states_[id];
    if (!budget_.charge(Budget::kSteps, 1 + (state.bytes.size() + state.calls.size()) / 4)) return;
    if (std::any_of(state.bytes.begin(), state.bytes.end(),
                    [&](const ByteEdge& edge) { return alive_[edge.target] != 0; })) {
      return meet(id, need);
    }
    std::uint32_t least = kNever;
    for (const CallEdge& call : state.calls) {
      if (alive_[call.target] == 0 || needs_[call.frame] == kNever) continue;
      least = std::min(least, std::max(needs_[call.frame] + 1, states_[call.target].need));
    }
    if (least != kNever) meet(id, least);
  }

  std::vector<State>& states_;
  const std::vector<Frame>& frames_;
  Budget& budget_;
  std::vector<char> alive_;
  std::vector<std::uint32_t> needs_;  // by frame
  std::vector<std::vector<StateId>> sources_;
  std::vector<std::vector<StateId>> callers_;
  std::vector<FrameId> starts_;             // by state: the frame that starts there
  std::vector<std::vector<StateId>> open_;  // by need
};

// Frames that can be reached from others without a byte; a cycle of them is left recursion.
class LeftCalls {
 public:
  LeftCalls(const std::vector<State>& states, const std::vector<Frame>& frames, Budget& budget)
      : states_(states), frames_(frames), budget_(budget), empty_(frames.size()) {
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
      const std::size_t calls = states_[reached[i]].calls.size();
      if (!budget_.charge(Budget::kSteps, 1 + calls * (1 + reached.size() / 4))) break;
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
  Budget& budget_;
  std::vector<char> empty_;
};

Result<void> check_rules(const Grammar& grammar) {
  TRY_DO(grammar.check_budget());
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
  Budget& budget = grammar.budget();
  TRY_DO(budget.check());

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
      grammar.budget().charge(Budget::kBytes, sizeof(Frame) + frame.name.size());
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
    TRY(std::vector<State> built, builder.build(request));
    append_states(std::move(built), id, automaton.frames_[id], automaton.states_);
  }
  const bool ends = Trimmer(automaton.states_, automaton.frames_, budget).trim();
  TRY_DO(budget.check());
  if (!ends) return fail(ErrorCode::kInvalid, "no finite text matches the grammar");
  const std::uint32_t need = automaton.states_[automaton.frames_[0].start].need;
  if (need > kMaxNeed) {
    return fail(ErrorCode::kTooLarge, "the grammar's shortest nesting is {} rules deep, limit {}",
                need, kMaxNeed);
  }
  const Frame* cycle = LeftCalls(automaton.states_, automaton.frames_, budget).find_cycle();
  TRY_DO(budget.check());
  if (cycle) {
    return fail(ErrorCode::kInvalid,
                "the grammar's rule '{}' calls itself, through others, before any text: write "
                "left recursion as 'a ::= b c*'",
                cycle->name);
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
