// Keys and values in bytes, as kernels write and read them: ops/formats/kv_rows.h is the
// definition, and the bits are its own.
#pragma once

#include "ops/cuda/codes/code_values.h"
#include "ops/cuda/kernel.h"
#include "ops/formats/int8_limits.h"

namespace saccade::cuda {

// A code without its scale.
SACCADE_DEVICE float widen(std::int8_t code) { return static_cast<float>(code); }
SACCADE_DEVICE float widen(E4m3 code) { return e4m3_value(code.bits); }

// Where a page keeps the scale of row `row` of its K and V codes, counted together.
SACCADE_DEVICE std::byte* scale_place(const KvPages& pages, std::int64_t block, std::int64_t row) {
  return pages.base + block * pages.block_stride +
         2 * pages.kv_heads * pages.block_size * pages.head_dim + row * std::int64_t{sizeof(float)};
}

// Behind codes of an odd number a scale begins at any byte.
SACCADE_DEVICE float read_scale(const std::byte* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(float) == 0)
    return *reinterpret_cast<const float*>(from);
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<std::uint32_t>(from[i]) << 8 * i;
  return float_of(bits);
}

SACCADE_DEVICE void write_scale(float scale, std::byte* to) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(float) == 0) {
    *reinterpret_cast<float*>(to) = scale;
    return;
  }
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(bits_of(scale) >> 8 * i & 0xffU);
}

// The nearest code, ties to even; what is too large becomes 448. No sum is in it that a multiply
// before it could be fused with.
SACCADE_DEVICE std::uint8_t e4m3_code(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = bits >> 24 & 0x80U;
  const std::uint32_t size = bits & 0x7fffffffU;
  if (size >= 0x43e00000U) return static_cast<std::uint8_t>(sign | 0x7eU);
  if (size < 0x3c800000U)  // subnormal: a multiple of 2^-9
    return static_cast<std::uint8_t>(
        sign | static_cast<std::uint32_t>(static_cast<std::int32_t>(rintf(float_of(size) * 512))));
  const std::uint32_t rounded = size + 0x7ffffU + (size >> 20 & 1U);
  return static_cast<std::uint8_t>(sign | (rounded - 0x3c000000U) >> 20);
}

// How a row becomes codes: round_kv_row() of a row whose largest magnitude has the bits `most`,
// where what is no number is the largest.
class KvRounding {
 public:
  SACCADE_DEVICE KvRounding(DType type, unsigned most) : type_(type) {
    const float largest = float_of(most);
    const float top = type == DType::kI8 ? 127.0f : 448.0f;
    const bool finite = most < 0x7f800000U;
    zeros_ = !finite || largest < kInt8Least;
    inverse_ = zeros_ ? 0.0f : top / largest;
    scale_ = zeros_ ? 0.0f : largest / top;
    if (!finite) scale_ = std::numeric_limits<float>::quiet_NaN();
  }
  SACCADE_DEVICE float scale() const { return scale_; }
  SACCADE_DEVICE std::uint8_t code(float value) const {
    if (zeros_) return 0;
    const float scaled = value * inverse_;
    if (type_ == DType::kE4m3) return e4m3_code(scaled);
    const float nearest = rintf(larger(-127.0f, smaller(scaled, 127.0f)));
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(nearest));
  }

 private:
  DType type_;
  bool zeros_;
  float inverse_;
  float scale_;
};

}  // namespace saccade::cuda
