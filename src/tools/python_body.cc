#include <utility>

#include "tools/call_body.h"
#include "tools/json_scanner.h"
#include "tools/python_literal.h"

namespace saccade::tools {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

// The bytes up to the bracket that closes what is already open, whatever strings hold.
class BracketScanner {
 public:
  // True: `byte` is that bracket.
  bool closes(char byte) {
    if (quote_ != 0) {
      in_string(byte);
      return false;
    }
    if (empty_) {  // after "" or '': a third quote opens a long string
      empty_ = false;
      if (byte == last_quote_) {
        quote_ = byte;
        long_ = true;
        run_ = 0;
        return false;
      }
    }
    if (byte == '"' || byte == '\'') {
      quote_ = last_quote_ = byte;
      long_ = false;
      fresh_ = true;
    } else if (byte == '(' || byte == '[' || byte == '{') {
      ++depth_;
    } else if (byte == ')' || byte == ']' || byte == '}') {
      return depth_-- == 0;
    }
    return false;
  }

 private:
  void in_string(char byte) {
    const bool fresh = std::exchange(fresh_, false);
    if (escaped_) {
      escaped_ = false;
    } else if (byte == '\\') {
      escaped_ = true;
      run_ = 0;
    } else if (byte != quote_) {
      run_ = 0;
    } else if (!long_) {
      quote_ = 0;
      empty_ = fresh;
    } else if (++run_ == 3) {
      quote_ = 0;
    }
  }

  int depth_ = 0;
  char quote_ = 0;  // of the string that is open
  char last_quote_ = 0;
  bool long_ = false;   // by three quotes
  bool fresh_ = false;  // nothing in it yet
  bool empty_ = false;  // the last byte closed an empty one
  bool escaped_ = false;
  int run_ = 0;  // quotes in a row within a long one
};

class PythonBody : public CallBody {
 public:
  PythonBody(PythonForm form, const CallLimits& limits) : form_(form), limits_(limits) {}

  Step put(char byte, CallWriter& writer, AnswerEvents& events) override {
    switch (at_) {
      case At::kArguments:
        return in_arguments(byte, writer, events);
      case At::kName:
        return in_name(byte);
      case At::kWrapped:
        if (is_space(byte)) return Step::kMore;
        at_ = At::kAfterCall;
        return byte == ')' ? Step::kMore : Step::kBad;
      default:
        break;
    }
    if (is_space(byte)) return Step::kMore;
    if (at_ == At::kOpen && byte == '[') {
      in_list_ = true;
      at_ = At::kNextCall;
      return Step::kMore;
    }
    if (at_ == At::kOpen && form_ == PythonForm::kList) return Step::kBad;
    if (at_ == At::kAfterCall && in_list_) {
      if (byte == ']') return Step::kDone;
      at_ = At::kNextCall;
      return byte == ',' ? Step::kMore : Step::kBad;
    }
    if (!is_name(byte)) return at_ == At::kAfterCall ? Step::kDoneBefore : Step::kBad;
    at_ = At::kName;
    text_ = byte;
    return Step::kMore;
  }

  bool complete() const override { return at_ == At::kAfterCall && !in_list_; }

 private:
  enum class At { kOpen, kNextCall, kName, kArguments, kWrapped, kAfterCall };

  Step in_name(char byte) {
    if (byte != '(') {
      if (!is_name(byte) || text_.size() == limits_.name_bytes) return Step::kBad;
      text_.push_back(byte);
      return Step::kMore;
    }
    if (text_ == "print" && form_ == PythonForm::kLines && !wrapped_) {
      wrapped_ = true;
      at_ = At::kNextCall;
      return Step::kMore;
    }
    name_ = std::exchange(text_, "");
    scanner_ = {};
    at_ = At::kArguments;
    return Step::kMore;
  }

  Step in_arguments(char byte, CallWriter& writer, AnswerEvents& events) {
    if (!scanner_.closes(byte)) {
      if (text_.size() == limits_.argument_bytes) return Step::kBad;
      text_.push_back(byte);
      return Step::kMore;
    }
    const auto arguments = byte == ')' ? keyword_arguments(text_, limits_.depth) : std::nullopt;
    if (!arguments || arguments->size() > limits_.argument_bytes || !writer.begin(name_, events) ||
        !writer.arguments(*arguments, events))
      return Step::kBad;
    writer.end(events);
    at_ = std::exchange(wrapped_, false) ? At::kWrapped : At::kAfterCall;
    return Step::kMore;
  }

  PythonForm form_;
  CallLimits limits_;
  At at_ = At::kOpen;
  bool in_list_ = false;
  bool wrapped_ = false;  // in print(...)
  std::string text_;      // of the name or the arguments being read
  std::string name_;
  BracketScanner scanner_;
};

// Told by the first byte: a brace is JSON, anything else Python.
class CodeBody : public CallBody {
 public:
  explicit CodeBody(const CallLimits& limits) : limits_(limits) {}

  Step put(char byte, CallWriter& writer, AnswerEvents& events) override {
    if (chosen_) return chosen_->put(byte, writer, events);
    if (is_space(byte)) return Step::kMore;
    if (byte == '[' && !in_list_) {  // of either
      in_list_ = true;
      return Step::kMore;
    }
    if (byte == '{') {
      chosen_ = json_body(in_list_ ? JsonForm::kList : JsonForm::kSeries, false, limits_);
    } else {
      chosen_ = python_body(PythonForm::kLines, limits_);
    }
    if (in_list_ && chosen_->put('[', writer, events) != Step::kMore) return Step::kBad;
    return chosen_->put(byte, writer, events);
  }

  bool complete() const override { return chosen_ && chosen_->complete(); }

 private:
  CallLimits limits_;
  bool in_list_ = false;
  std::unique_ptr<CallBody> chosen_;
};

}  // namespace

std::unique_ptr<CallBody> python_body(PythonForm form, const CallLimits& limits) {
  return std::make_unique<PythonBody>(form, limits);
}

std::unique_ptr<CallBody> code_body(const CallLimits& limits) {
  return std::make_unique<CodeBody>(limits);
}

}  // namespace saccade::tools
