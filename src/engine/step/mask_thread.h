// Token masks of sequences that a grammar holds, filled beside the engine thread: asked for when a
// token is known, waited for when the next one is sampled.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/request.h"
#include "grammar/automaton/matcher.h"

namespace saccade {

// One sequence's place in its grammar, and the mask of its next token.
class GuidedSequence {
 public:
  explicit GuidedSequence(std::shared_ptr<const grammar::CompiledGrammar> grammar)
      : matcher_(std::move(grammar)), words_(matcher_.grammar().vocabulary().words()) {}

  // Engine thread, after wait() and before the next ask(): the token that was sampled. False: the
  // grammar does not let it come.
  bool accept(TokenId token) { return matcher_.accept(token); }
  bool ended() const { return matcher_.ended(); }
  // No token may come: the grammar has become too ambiguous to be followed.
  bool stuck() const { return matcher_.exhausted() || matcher_.gave_up(); }

 private:
  friend class MaskThread;
  enum State : int { kIdle, kAsked, kFilling, kFilled };
  void fill() { matcher_.fill_mask(words_); }

  grammar::Matcher matcher_;
  std::vector<std::uint32_t> words_;
  std::atomic<int> state_{kIdle};
};

// Engine thread. Its thread begins with the first mask that is asked for.
class MaskThread {
 public:
  MaskThread() = default;
  ~MaskThread();
  MaskThread(const MaskThread&) = delete;
  MaskThread& operator=(const MaskThread&) = delete;

  // The mask of the token after all those accepted. Begun with the next start().
  void ask(std::shared_ptr<GuidedSequence> of);
  void start();
  // Fills it here if nobody has begun to. Good until the sequence's next ask().
  std::span<const std::uint32_t> wait(GuidedSequence& of);

 private:
  void work();

  std::vector<std::shared_ptr<GuidedSequence>> asked_;  // not started
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<GuidedSequence>> queue_;  // guarded by mutex_
  bool stopping_ = false;                              // guarded by mutex_
  std::thread thread_;
};

}  // namespace saccade
