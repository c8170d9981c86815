// What a generated text says, in order: content, reasoning and calls of tools.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade::tools {

struct AnswerEvent {
  enum class Kind {
    kContent,    // `text` of the answer
    kReasoning,  // `text` of the thoughts before it
    kCallBegin,  // call number `call` begins: `text` is the function's name
    kArguments,  // `text`: more of the JSON of that call's arguments
    kCallEnd,    // its arguments are complete, or the text broke off in them
  };
  Kind kind = Kind::kContent;
  int call = -1;  // of calls: counted from 0 in one answer
  std::string text;

  bool operator==(const AnswerEvent&) const = default;
};

// Events in order; neighbours of one kind and call are one event.
class AnswerEvents {
 public:
  void add(AnswerEvent::Kind kind, int call, std::string_view text);
  // The same of no call, behind `space`, which then holds the white space that `text` ends with.
  // False: `text` is nothing else, and waits there with what waited.
  bool add_but_space(AnswerEvent::Kind kind, std::string_view text, std::string& space);
  const std::vector<AnswerEvent>& list() const { return list_; }
  bool empty() const { return list_.empty(); }
  void clear() { list_.clear(); }

 private:
  std::vector<AnswerEvent> list_;
};

// Of one answer; a text past them is content.
struct CallLimits {
  int calls = 128;
  std::size_t argument_bytes = 1U << 20;  // of one call
  std::size_t name_bytes = 256;
  int depth = 64;  // of arrays and objects in each other
};

}  // namespace saccade::tools
