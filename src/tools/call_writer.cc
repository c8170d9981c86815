#include "tools/call_writer.h"

namespace saccade::tools {

bool CallWriter::begin(std::string_view name, AnswerEvents& events) {
  if (open_ || calls_ == limits_.calls || name.empty() || name.size() > limits_.name_bytes)
    return false;
  if (known_ && !known_(name)) return false;
  open_ = true;
  argument_bytes_ = 0;
  unsaid_.clear();
  events.add(AnswerEvent::Kind::kCallBegin, calls_++, name);
  return true;
}

bool CallWriter::arguments(std::string_view text, AnswerEvents& events) {
  if (!open_ || text.size() > limits_.argument_bytes - argument_bytes_) return false;
  argument_bytes_ += text.size();
  unsaid_.clear();
  events.add(AnswerEvent::Kind::kArguments, calls_ - 1, text);
  return true;
}

void CallWriter::end(AnswerEvents& events) {
  if (!open_) return;
  if (argument_bytes_ == 0) events.add(AnswerEvent::Kind::kArguments, calls_ - 1, "{");
  open_ = false;
  unsaid_.clear();
  events.add(AnswerEvent::Kind::kCallEnd, calls_ - 1, "");
}

}  // namespace saccade::tools
