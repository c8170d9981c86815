// Splits generated text into the thoughts at its beginning and the rest, as it comes.
#pragma once

#include <string>
#include <string_view>

#include "tools/answer_event.h"
#include "tools/formats.h"

namespace saccade::tools {

// White space around the thoughts, and between them and the rest, is nobody's. One answer, one
// thread.
class ReasoningParser {
 public:
  // inside: the prompt opened the thoughts (opens_reasoning).
  ReasoningParser(const ReasoningFormat& format, bool inside);

  // Thoughts become events; what is not one of them is returned.
  std::string feed(std::string_view text, AnswerEvents& events);
  // The text is over. Once.
  std::string finish(AnswerEvents& events);

 private:
  enum class At { kStart, kInside, kAfter, kContent };

  void put(std::string_view text, AnswerEvents& events);

  const ReasoningFormat& format_;
  bool inside_;
  At at_ = At::kStart;
  std::string input_;       // not yet decided
  std::size_t blanks_ = 0;  // that it begins with, before anything else came
  std::string space_;       // white space that follows shown thoughts
  bool shown_ = false;
};

}  // namespace saccade::tools
