// Codes of four bits in the compiler's generic vectors.
#pragma once

#include <cstring>

#include "ops/cpu/simd/vec_portable.h"

namespace saccade::cpu {

struct NibblesPortable {
  using Words = std::uint32_t __attribute__((vector_size(16)));  // eight codes a lane
  static constexpr int kTileRows = 4;

  static Words load(const void* p) {
    Words a;
    std::memcpy(&a, p, sizeof(a));
    return a;
  }
  // Code `i` of each lane.
  static VecPortable::F code(Words words, int i) {
    return __builtin_convertvector((words >> static_cast<std::uint32_t>(4 * i)) & 15,
                                   VecPortable::F);
  }
  // A byte a lane.
  static VecPortable::F load_bytes(const std::uint8_t* p) {
    return VecPortable::F{static_cast<float>(p[0]), static_cast<float>(p[1]),
                          static_cast<float>(p[2]), static_cast<float>(p[3])};
  }
};

}  // namespace saccade::cpu
