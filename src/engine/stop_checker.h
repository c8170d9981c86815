// Stop strings over text that arrives in pieces: holds back what may be the beginning of one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// One sequence; one thread.
class StopChecker {
 public:
  // include: a matched stop string stays at the end of the text.
  StopChecker(std::vector<std::string> stops, bool include);

  struct Verdict {
    std::string text;  // certainly part of the answer
    std::optional<std::string>
        matched;  // the stop string that ended it; nothing may be pushed afterwards
  };

  // `armed` false (before min_tokens): the text passes and is not searched.
  Verdict push(std::string_view text, bool armed = true);
  // The sequence ended otherwise: what was held back.
  std::string finish();

 private:
  const std::vector<std::string> stops_;
  const bool include_;
  std::string held_;  // no stop string in it; its longest suffix that may begin one is not out yet
};

}  // namespace saccade
