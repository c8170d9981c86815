// Tokens [begin, end) of a sequence.
#pragma once

#include <cstdint>

namespace saccade {

struct TokenInterval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

}  // namespace saccade
