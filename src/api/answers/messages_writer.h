// Answers of /v1/messages: blocks, and the events in which they come.
#pragma once

#include <memory>

#include "api/answers/answer_writer.h"

namespace saccade::api {

struct MessagesForm {
  AnswerHead head;  // "msg_..."
  bool stream = false;
};

// A stream wants the usage with every piece: its first event says what was read.
std::unique_ptr<AnswerWriter> messages_writer(MessagesForm form);

}  // namespace saccade::api
