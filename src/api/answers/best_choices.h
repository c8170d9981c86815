// best_of of /v1/completions: more choices are made of a prompt than are given.
#pragma once

#include <memory>

#include "api/answers/answer_writer.h"

namespace saccade::api {

struct BestChoices {
  std::size_t prompts = 1;
  std::size_t made = 1;   // of each prompt; pieces bring their log-probabilities
  std::size_t given = 1;  // of each prompt, to `writer`
  bool logprobs = false;  // whether those are given too
};

// Keeps all pieces until the end, and gives `writer`, a whole answer's, those of the choices whose
// tokens are the likeliest: by the mean of their log-probabilities, best first, the earlier of
// equals. Usage counts all that were made.
std::unique_ptr<AnswerWriter> best_choices(BestChoices form, std::unique_ptr<AnswerWriter> writer);

}  // namespace saccade::api
