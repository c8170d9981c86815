// Elements of tensors as whole numbers in the order of their values, so that what is nearly right
// differs by little.
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/dtype.h"

namespace saccade::test {

enum class Element : uint8_t { bytes, f32, bf16, f16 };

inline unsigned width_of(Element element) {
  return element == Element::bytes ? 1 : element == Element::f32 ? 4 : 2;
}

// The bits that torch stores for a float32, rounded to nearest even.
inline uint32_t bits_of(Element element, float value) {
  if (element == Element::f32) return std::bit_cast<uint32_t>(value);
  return element == Element::bf16 ? to_bf16(value).bits : to_f16(value).bits;
}

inline float value_of(Element element, uint32_t bits) {
  if (element == Element::f32) return std::bit_cast<float>(bits);
  const auto half = static_cast<uint16_t>(bits);
  return element == Element::bf16 ? to_float(Bf16{half}) : to_float(F16{half});
}

// What is added to the guessed bits to give the stored ones: 0, 1, 2, 3 ... for none, one up, one
// down, two up.
inline uint32_t difference(uint32_t stored, uint32_t guessed, unsigned width) {
  const uint32_t top = uint32_t{1} << (8 * width - 1), mask = top | (top - 1);
  const auto order = [&](uint32_t bits) { return (bits & top ? ~bits : bits | top) & mask; };
  const uint32_t apart = (order(stored) - order(guessed)) & mask;
  return (apart & top ? ~(apart << 1) : apart << 1) & mask;
}

inline uint32_t corrected(uint32_t guessed, uint32_t difference, unsigned width) {
  const uint32_t top = uint32_t{1} << (8 * width - 1), mask = top | (top - 1);
  const uint32_t apart = (difference & 1 ? ~(difference >> 1) : difference >> 1) & mask;
  const uint32_t order = ((guessed & top ? ~guessed : guessed | top) + apart) & mask;
  return (order & top ? order ^ top : ~order) & mask;
}

}  // namespace saccade::test
