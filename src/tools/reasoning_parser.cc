#include "tools/reasoning_parser.h"

#include <algorithm>
#include <utility>

namespace saccade::tools {
namespace {

constexpr std::string_view kSpace = " \n\r\t";

std::size_t space_before(std::string_view text) {
  return std::min(text.find_first_not_of(kSpace), text.size());
}

}  // namespace

ReasoningParser::ReasoningParser(const ReasoningFormat& format, bool inside)
    : format_(format), inside_(inside || format.from_the_start) {}

std::string ReasoningParser::feed(std::string_view text, AnswerEvents& events) {
  if (at_ == At::kContent) return std::string(text);
  input_ += text;
  if (at_ == At::kStart) {
    blanks_ += space_before(std::string_view(input_).substr(blanks_));
    const auto rest = std::string_view(input_).substr(blanks_);
    if (rest.starts_with(format_.begin)) {
      input_.erase(0, blanks_ + format_.begin.size());
      at_ = At::kInside;
    } else if (format_.begin.starts_with(rest)) {
      return "";
    } else {
      at_ = inside_ ? At::kInside : At::kContent;
    }
  }
  if (at_ == At::kInside) {
    const std::size_t end = input_.find(format_.end);
    if (end == std::string::npos) {
      std::size_t kept = std::min(input_.size(), format_.end.size() - 1);
      while (!input_.ends_with(format_.end.substr(0, kept))) --kept;
      put(std::string_view(input_).substr(0, input_.size() - kept), events);
      input_.erase(0, input_.size() - kept);
      return "";
    }
    put(std::string_view(input_).substr(0, end), events);
    input_.erase(0, end + format_.end.size());
    at_ = At::kAfter;
  }
  if (at_ == At::kAfter) {
    input_.erase(0, space_before(input_));
    if (input_.empty()) return "";
    at_ = At::kContent;
  }
  return std::exchange(input_, "");
}

std::string ReasoningParser::finish(AnswerEvents& events) {
  if (at_ == At::kInside || (at_ == At::kStart && inside_)) {
    put(std::exchange(input_, ""), events);
    return "";
  }
  return std::exchange(input_, "");
}

void ReasoningParser::put(std::string_view text, AnswerEvents& events) {
  if (!shown_) text.remove_prefix(space_before(text));
  shown_ = events.add_but_space(AnswerEvent::Kind::kReasoning, text, space_) || shown_;
}

}  // namespace saccade::tools
