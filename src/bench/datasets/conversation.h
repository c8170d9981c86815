// Multi-turn: what is sent at each turn, with the answers that were really served.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/load/load_runner.h"
#include "bench/load/request_body.h"

namespace saccade::bench {

// Where a turn's images go.
enum class TurnImages {
  kOwnMessage,    // with the turn's own text; earlier turns keep theirs
  kFirstMessage,  // this turn's images behind the first turn's text, and no others (DashInfer)
};

// The messages of turn `turns.size() - 1`: every question up to it, the served answers between.
// answers.size() == turns.size() - 1.
std::vector<ChatMessage> conversation_messages(std::span<const Prompt> turns,
                                               std::span<const std::string> answers,
                                               TurnImages images);

// Prompts grouped into conversations (Prompt::conversation, in order), fed to the load runner: the
// first turns are the requests of the run, the others follow when the turn before has ended.
class Conversations {
 public:
  Conversations(std::vector<Prompt> prompts, BodySettings body, TurnImages images);

  // The first turn of each conversation; index i of the prompts is PromptRecord i.
  std::vector<LoadRequest> first_turns() const;
  std::size_t count() const { return begin_.size() - 1; }

  // For LoadSettings::follow_up. Any thread.
  std::optional<FollowUp> next(const RequestRecord& ended, const std::string& answer);

 private:
  LoadRequest request(std::size_t conversation, std::size_t turn,
                      std::span<const std::string> answers) const;
  std::vector<Prompt> prompts_;
  BodySettings body_;
  TurnImages images_;
  std::vector<std::size_t> begin_;  // [conversations + 1], in prompts_
  std::mutex mutex_;
  std::vector<std::vector<std::string>> answers_;  // by conversation; guarded by mutex_
};

}  // namespace saccade::bench
