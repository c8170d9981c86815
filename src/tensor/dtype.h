// The element types, and the float formats of 16 and of 8 bits as bit patterns. Apart from tensor.h
// so that kernels compiled for one instruction set can include it and nothing else.
#pragma once

#include <cstdint>

namespace saccade {

enum class DType : std::uint8_t { kF32, kBf16, kF16, kI32, kI8, kU8, kE4m3 };

struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};
// float8_e4m3fn: no infinities; all ones is NaN, 448 the largest number.
struct E4m3 {
  std::uint8_t bits;
};
float to_float(Bf16 x);
float to_float(F16 x);
Bf16 to_bf16(float x);  // round to nearest even; NaN stays NaN
F16 to_f16(float x);    // round to nearest even; overflow becomes infinity
float to_float(E4m3 x);
E4m3 to_e4m3(float x);  // round to nearest even; overflow becomes 448, NaN stays NaN

}  // namespace saccade
