#include "tools/tool_call_parser.h"

#include <algorithm>

namespace saccade::tools {
namespace {

constexpr std::string_view kCallSpace = " \n\r\t";

// Bytes at the end of `text` with which one of the markers may begin.
std::size_t undecided(std::string_view text, std::span<const CallMarker> markers) {
  std::size_t most = 0;
  for (const CallMarker& marker : markers) {
    for (std::size_t size = std::min(text.size(), marker.begin.size() - 1); size > most; --size) {
      if (!text.ends_with(marker.begin.substr(0, size))) continue;
      most = size;
      break;
    }
  }
  return most;
}

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
  if (at_ == At::kBody && !body_->complete()) break_off(events);
  if (at_ == At::kStart || at_ == At::kContent) put_content(std::exchange(input_, ""), events);
  if (!after_call_) events.add(AnswerEvent::Kind::kContent, -1, std::exchange(space_, ""));
}

bool ToolCallParser::advance(AnswerEvents& events) {
  switch (at_) {
    case At::kStart:
      return at_start();
    case At::kContent:
      return in_content(events);
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
  const CallMarker* found = nullptr;
  std::size_t first = std::string::npos;
  for (const CallMarker& marker : format_.markers) {
    const std::size_t at = input_.find(marker.begin);
    if (at >= first) continue;
    first = at;
    found = &marker;
  }
  if (found == nullptr) {
    const std::size_t kept = undecided(input_, format_.markers);
    put_content(std::string_view(input_).substr(0, input_.size() - kept), events);
    input_.erase(0, input_.size() - kept);
    return false;
  }
  put_content(std::string_view(input_).substr(0, first), events);
  input_.erase(0, first + found->begin.size());
  if (!after_call_) before_call_ = shown_ ? space_ : "";
  writer_.unsaid() = std::exchange(space_, "");
  writer_.unsaid() += found->begin;
  begin_body(found->body, false, found->end);
  return true;
}

void ToolCallParser::begin_body(BodyKind kind, bool bare, std::string_view end) {
  const CallLimits& limits = writer_.limits();
  switch (kind) {
    case BodyKind::kJson:
      body_ = json_body(JsonForm::kObject, bare, limits);
      break;
    case BodyKind::kJsonList:
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
  writer_.require(bare ? [this](std::string_view name) { return names_a_tool(name); }
                       : std::function<bool(std::string_view)>());
  end_ = end;
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
  const std::size_t last = text.find_last_not_of(kCallSpace);
  if (last == std::string_view::npos) {
    space_ += text;
    return;
  }
  shown_ = true;
  events.add(AnswerEvent::Kind::kContent, -1, space_);
  events.add(AnswerEvent::Kind::kContent, -1, text.substr(0, last + 1));
  space_ = text.substr(last + 1);
}

bool ToolCallParser::names_a_tool(std::string_view name) const {
  if (!tools_) return false;
  return std::any_of(tools_->begin(), tools_->end(), [&](const json::value& tool) {
    const json::object* outer = tool.if_object();
    const json::value* function = outer == nullptr ? nullptr : json::find(*outer, "function");
    const json::object* inner = function == nullptr ? nullptr : function->if_object();
    const json::value* known = inner == nullptr ? nullptr : json::find(*inner, "name");
    return known != nullptr && known->is_string() && known->get_string() == name;
  });
}

}  // namespace saccade::tools
