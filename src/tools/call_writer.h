// Turns what the bodies of calls find into events, and remembers what no event has said yet, so
// that a text that turns out to be no call is content again.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tools/answer_event.h"

namespace saccade::tools {

class CallWriter {
 public:
  explicit CallWriter(CallLimits limits) : limits_(limits) {}

  // False: no call can begin, and nothing was written. `known_only`: the name must be one of
  // `known` as given by set_known().
  [[nodiscard]] bool begin(std::string_view name, AnswerEvents& events);
  // False: too long, and nothing was written.
  [[nodiscard]] bool arguments(std::string_view text, AnswerEvents& events);
  // Arguments that nobody wrote are "{", since the call broke off: clients take "" for none.
  void end(AnswerEvents& events);

  bool open() const { return open_; }
  int calls() const { return calls_; }
  const CallLimits& limits() const { return limits_; }

  // Empty: any name will do.
  void require(std::function<bool(std::string_view name)> known) { known_ = std::move(known); }

  // Text that was taken and that no event has said.
  std::string& unsaid() { return unsaid_; }

 private:
  CallLimits limits_;
  std::function<bool(std::string_view name)> known_;
  int calls_ = 0;
  bool open_ = false;
  std::size_t argument_bytes_ = 0;
  std::string unsaid_;
};

}  // namespace saccade::tools
