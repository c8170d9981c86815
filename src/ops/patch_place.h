// Where a patch lies in an image.
#pragma once

#include <cstdint>

namespace saccade {

struct PatchPlace {  // of its upper left corner, in pixels
  std::int32_t top = 0;
  std::int32_t left = 0;
};

}  // namespace saccade
