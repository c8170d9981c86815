#include "tools/tool_call_parser.h"

#include <algorithm>

namespace saccade::tools {
namespace {

constexpr std::string_view kCallSpace = " \n\r\t";

constexpr std::string_view kNextLine = "\n{";

// The first of some texts within another.
class Search {
 public:
  explicit Search(std::string_view in) : in_(in) {}

  // True: it is the first so far. Of an empty one there is none.
  bool add(std::string_view text) {
    if (text.empty()) return false;
    const std::size_t found = in_.find(text);
    if (found < at) {
      at = found;
      return true;
    }
    // What the end of `in_` may be the begin of.
    for (std::size_t size = std::min(in_.size(), text.size() - 1); size > undecided; --size) {
      if (!in_.ends_with(text.substr(0, size))) continue;
      undecided = size;
      break;
    }
    return false;
  }

  std::size_t at = std::string_view::npos;
  std::size_t undecided = 0;

 private:
  std::string_view in_;
};

}  // namespace

ToolCallParser::ToolCallParser(const ToolCallFormat& format,
                               std::shared_ptr<const json::array> tools, CallLimits limits)
    : format_(format),
      tools_(std::move(tools)),
      writer_(limits),
      at_(format.bare != 0 ? At::kStart : At::kContent) {}

void ToolCallParser::feed(std::string_view text, AnswerEvents& events) {
  input_ += text;
  while (advance(events)) {
  }
}

void ToolCallParser::finish(AnswerEvents& events) {
  if (at_ == At::kBody && !body_->complete()) {
    body_->cut(writer_, events);
    break_off(events);
  }
  if (at_ != At::kBody && at_ != At::kAfterBody) put_content(std::exchange(input_, ""), events);
  if (!after_call_) events.add(AnswerEvent::Kind::kContent, -1, std::exchange(space_, ""));
}

bool ToolCallParser::advance(AnswerEvents& events) {
  switch (at_) {
    case At::kStart:
      return at_start();
    case At::kContent:
      return in_content(events);
    case At::kThoughts:
      return in_thoughts(events);
    case At::kBody:
      return in_body(events);
    case At::kAfterBody:
      return after_body();
  }
  return false;
}

bool ToolCallParser::at_start() {
  // Blanks are put aside, so that each is looked at once: some models write nothing else.
  const std::size_t blanks = std::min(input_.find_first_not_of(kCallSpace), input_.size());
  space_ += input_.substr(0, blanks);
  input_.erase(0, blanks);
  if (input_.empty()) return false;
  at_ = At::kContent;
  if (input_.front() != format_.bare) return true;
  writer_.unsaid() = std::exchange(space_, "");
  begin_body(format_.bare_body, true, "");
  return true;
}

bool ToolCallParser::in_content(AnswerEvents& events) {
  Search search(input_);
  const CallMarker* found = nullptr;
  for (const CallMarker& marker : format_.markers) {
    if (search.add(marker.begin)) found = &marker;
  }
  const bool thinks = search.add(format_.thoughts_begin);
  const bool ends = lines_ != nullptr && search.add(lines_->end);
  const bool goes_on = lines_ != nullptr && search.add(kNextLine);
  if (search.at == std::string::npos) {
    const std::size_t decided = input_.size() - search.undecided;
    put_content(std::string_view(input_).substr(0, decided), events);
    input_.erase(0, decided);
    return false;
  }
  const std::size_t shown = goes_on  ? search.at
                            : ends   ? search.at + lines_->end.size()
                            : thinks ? search.at + format_.thoughts_begin.size()
                                     : search.at;
  put_content(std::string_view(input_).substr(0, shown), events);
  if (!goes_on && (ends || thinks)) {
    input_.erase(0, shown);
    if (ends) lines_ = nullptr;
    if (!ends) at_ = At::kThoughts;
    return true;
  }
  const std::string_view begin = goes_on ? kNextLine.substr(0, 1) : found->begin;
  input_.erase(0, shown + begin.size());
  if (!after_call_) before_call_ = shown_ ? space_ : "";
  writer_.unsaid() = std::exchange(space_, "");
  writer_.unsaid() += begin;
  if (!goes_on) lines_ = found->body == BodyKind::kJsonLines ? found : nullptr;
  begin_body(goes_on ? lines_->body : found->body, false, goes_on ? lines_->end : found->end);
  return true;
}

bool ToolCallParser::in_thoughts(AnswerEvents& events) {
  Search search(input_);
  const bool ends = search.add(format_.thoughts_end);
  const std::size_t shown =
      ends ? search.at + format_.thoughts_end.size() : input_.size() - search.undecided;
  put_content(std::string_view(input_).substr(0, shown), events);
  input_.erase(0, shown);
  if (ends) at_ = At::kContent;
  return ends;
}

void ToolCallParser::begin_body(BodyKind kind, bool bare, std::string_view end) {
  const CallLimits& limits = writer_.limits();
  switch (kind) {
    case BodyKind::kJson:
      body_ = json_body(JsonForm::kObject, bare, limits);
      break;
    case BodyKind::kJsonList:
    case BodyKind::kJsonLines:
      body_ = json_body(JsonForm::kList, bare, limits);
      break;
    case BodyKind::kJsonSeries:
      body_ = json_body(JsonForm::kSeries, bare, limits);
      break;
    case BodyKind::kXml:
    case BodyKind::kXmlInFunction:
      body_ = xml_body(tools_.get(), kind == BodyKind::kXmlInFunction, end, limits);
      break;
    case BodyKind::kPython:
      body_ = python_body(PythonForm::kList, limits);
      break;
    case BodyKind::kMistral:
      body_ = mistral_body(limits);
      break;
    case BodyKind::kCode:
      body_ = code_body(limits);
      break;
  }
  writer_.require(
      bare ? [this](std::string_view name) { return function_named(tools_.get(), name) != nullptr; }
           : std::function<bool(std::string_view)>());
  end_ = end;
  calls_before_ = writer_.calls();
  at_ = At::kBody;
}

bool ToolCallParser::in_body(AnswerEvents& events) {
  std::size_t taken = 0;
  Step step = Step::kMore;
  while (step == Step::kMore && taken < input_.size()) {
    writer_.unsaid().push_back(input_[taken]);
    step = body_->put(input_[taken], writer_, events);
    if (step == Step::kMore || step == Step::kDone) {
      ++taken;
    } else if (!writer_.unsaid().empty()) {
      writer_.unsaid().pop_back();
    }
  }
  input_.erase(0, taken);
  if (step == Step::kBad) {
    break_off(events);
  } else if (step != Step::kMore) {
    writer_.unsaid().clear();
    body_.reset();
    lines_ = nullptr;
    after_call_ = true;
    at_ = At::kAfterBody;
  }
  return step != Step::kMore;
}

bool ToolCallParser::after_body() {
  if (end_.empty()) {
    at_ = At::kContent;
    return true;
  }
  input_.erase(0, std::min(input_.find_first_not_of(kCallSpace), input_.size()));
  if (input_.starts_with(end_)) {
    input_.erase(0, end_.size());
  } else if (end_.starts_with(input_)) {
    return false;
  }
  at_ = At::kContent;
  return true;
}

void ToolCallParser::break_off(AnswerEvents& events) {
  const std::string unsaid = std::exchange(writer_.unsaid(), "");
  writer_.end(events);
  body_.reset();
  at_ = At::kContent;
  after_call_ = after_call_ || writer_.calls() > calls_before_;
  put_content(unsaid, events);
}

void ToolCallParser::put_content(std::string_view text, AnswerEvents& events) {
  if (after_call_) {
    const std::size_t blanks = std::min(text.find_first_not_of(kCallSpace), text.size());
    behind_call_ += text.substr(0, blanks);
    text.remove_prefix(blanks);
    if (text.empty()) return;
    if (shown_) space_ = before_call_.empty() ? behind_call_ : before_call_;
    behind_call_.clear();
    after_call_ = false;
  }
  shown_ = events.add_but_space(AnswerEvent::Kind::kContent, text, space_) || shown_;
}

}  // namespace saccade::tools
