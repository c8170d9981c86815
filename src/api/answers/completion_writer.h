// Answers of /v1/chat/completions and /v1/completions.
#pragma once

#include <memory>

#include "api/answers/answer_writer.h"

namespace saccade::api {

struct CompletionForm {
  AnswerHead head;
  bool chat = true;
  bool include_usage = false;  // streams: a last chunk with it
};

// A chunk for each piece, and [DONE].
std::unique_ptr<AnswerWriter> completion_stream(CompletionForm form);
// One body with all choices.
std::unique_ptr<AnswerWriter> whole_completion(CompletionForm form, std::size_t choices);

}  // namespace saccade::api
