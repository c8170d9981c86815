// What long work says of itself on stderr: a bar on a terminal, a line of the log every few seconds
// elsewhere, and nothing of what ends within a second. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace saccade {

class Progress {
 public:
  struct Output {
    bool terminal = false;
    // Of a terminal: puts the text in the place of the one before; "" takes it away. Else: one
    // line.
    std::function<void(const std::string&)> write;
  };

  // `what` is a verb: "loading". Where none are given output and clock are the process's, and of
  // several at a time the first speaks alone. What is given outlives this.
  explicit Progress(std::string what);
  Progress(std::string what, const Clock& clock, Output output);
  ~Progress() { end(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `share` of the work is done, from 0 to 1, by `bytes` so far; `next` is what it goes on with, or
  // "".
  void show(double share, std::uint64_t bytes, std::string_view next);
  // The bar goes away; nothing is shown after it.
  void end();

 private:
  std::string text(double share, std::uint64_t bytes, std::string_view next, Nanos spent) const;

  std::string what_;
  const Clock& clock_;
  Output output_;
  Nanos began_;
  Nanos due_;
  bool shown_ = false;
  bool speaks_ = true;   // not ended
  bool shared_ = false;  // the process's own output
};

}  // namespace saccade
