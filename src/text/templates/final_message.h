// The last message of a conversation that its answer goes on from (transformers'
// continue_final_message): a mark is put behind its text, the template renders that, and the
// rendering is cut at the mark.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace saccade {

class FinalMessage {
 public:
  // Puts the mark behind the last message's text; of parts, behind the last one of text. kInvalid
  // where there is none.
  static Result<FinalMessage> mark(json::array& messages);

  // What was rendered of marked messages, up to the mark. White space before it stays where the
  // template keeps that of a message's end, and goes where the template takes it off. kInvalid
  // where the template does not show the text as it is.
  Result<std::string> cut(std::string rendered) const;

 private:
  std::string text_;
  std::string mark_;
};

}  // namespace saccade
