// For the tests of this folder: matrices in the memory of the emulated device, surrounded by NaN,
// aligned as kernels like it or not at all.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "ops/cuda/kernels.h"
#include "tensor/tensor.h"

namespace saccade::cuda {

class TestRows {
 public:
  // `odd`: begins at an odd element, with an odd gap between rows. Otherwise both are whole packs.
  TestRows(std::int64_t rows, std::int64_t cols, DType type, bool odd = false)
      : rows_(rows), cols_(cols), type_(type) {
    before_ = odd ? 17 : 16;
    stride_ = odd ? cols + 3 : (cols + 7) / 8 * 8 + 8;
    words_.resize((static_cast<std::size_t>(2 * before_ + rows * stride_) * size_of(type) + 15) /
                  sizeof(Word));
    for (std::int64_t i = 0; i < 2 * before_ + rows * stride_; ++i)
      put(i, std::numeric_limits<float>::quiet_NaN());
  }
  Rows rows() { return {bytes() + before_ * width(), type_, rows_, cols_, stride_}; }
  std::int64_t count() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  float at(std::int64_t row, std::int64_t col) const { return get(before_ + row * stride_ + col); }
  void set(std::int64_t row, std::int64_t col, float value) {
    put(before_ + row * stride_ + col, value);
  }
  TestRows& random(Rng& rng, double scale = 1) {
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t col = 0; col < cols_; ++col)
        set(row, col,
            static_cast<float>(scale * (rng.uniform() + rng.uniform() + rng.uniform() - 1.5)));
    return *this;
  }
  // Whether all memory around the elements is untouched.
  bool intact() const {
    for (std::int64_t i = 0; i < 2 * before_ + rows_ * stride_; ++i) {
      const std::int64_t at = i - before_;
      const bool inside = at >= 0 && at < rows_ * stride_ && at % stride_ < cols_;
      if (!inside && !std::isnan(get(i))) return false;
    }
    return true;
  }

 private:
  struct alignas(16) Word {
    std::byte bytes[16];
  };
  std::int64_t width() const { return static_cast<std::int64_t>(size_of(type_)); }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(words_.data()); }
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(words_.data()); }
  float get(std::int64_t i) const {
    const std::byte* const from = bytes() + i * width();
    if (type_ == DType::kF32) {
      float value;
      std::memcpy(&value, from, sizeof(value));
      return value;
    }
    std::uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return type_ == DType::kBf16 ? to_float(Bf16{bits}) : to_float(F16{bits});
  }
  void put(std::int64_t i, float value) {
    std::byte* const to = bytes() + i * width();
    if (type_ == DType::kF32) {
      std::memcpy(to, &value, sizeof(value));
      return;
    }
    const std::uint16_t bits = type_ == DType::kBf16 ? to_bf16(value).bits : to_f16(value).bits;
    std::memcpy(to, &bits, sizeof(bits));
  }

  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t stride_ = 0;
  std::int64_t before_ = 0;
  DType type_;
  std::vector<Word> words_;
};

// Half an ulp of 1: the error of one rounding to `type`.
inline double rounding(DType type) { return type == DType::kF32 ? 0x1.0p-24 : 0x1.0p-8; }

using Element = std::function<double(std::int64_t, std::int64_t)>;

// |got - want| <= tolerance, element by element, and nothing else was written.
inline void expect_near(const TestRows& got, const Element& want, const Element& tolerance) {
  for (std::int64_t row = 0; row < got.count(); ++row) {
    for (std::int64_t col = 0; col < got.cols(); ++col) {
      const double wanted = want(row, col);
      ASSERT_LE(std::abs(got.at(row, col) - wanted), tolerance(row, col))
          << "row " << row << " col " << col << ": got " << got.at(row, col) << ", want " << wanted;
    }
  }
  EXPECT_TRUE(got.intact());
}

}  // namespace saccade::cuda
