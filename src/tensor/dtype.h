// The element types, and the two 16-bit float formats as bit patterns. Apart from tensor.h so that
// kernels compiled for one instruction set can include it and nothing else.
#pragma once

#include <cstdint>

namespace saccade {

enum class DType : std::uint8_t { kF32, kBf16, kF16, kI32, kI8, kU8 };

struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};
float to_float(Bf16 x);
float to_float(F16 x);
Bf16 to_bf16(float x);  // round to nearest even; NaN stays NaN
F16 to_f16(float x);    // round to nearest even; overflow becomes infinity

}  // namespace saccade
