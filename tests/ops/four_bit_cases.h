// Matrices of random codes of four bits, for tests of products with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/ops/gemm_cases.h"

namespace saccade {

struct CodesShape {
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t group = 0;
  StoredMatrix::Format format = StoredMatrix::Format::kGptq;
  DType scales = DType::kF16;
  bool ordered = false;  // groups of inputs all over the row
};

// Random codes with the memory they are views of.
class Codes {
 public:
  explicit Codes(const CodesShape& shape, std::uint64_t seed = 1) : rng_(seed) {
    const std::int64_t groups = (shape.in + shape.group - 1) / shape.group;
    matrix_.format = shape.format;
    matrix_.stored_out = matrix_.out_end = shape.out;
    matrix_.stored_in = matrix_.in_end = shape.in;
    matrix_.bits = 4;
    matrix_.group = shape.group;
    matrix_.codes = random((shape.out + 7) / 8 * ((shape.in + 7) / 8) * 8 * 8 / 2);
    matrix_.zeros = random(groups * ((shape.out + 7) / 8) * 8);
    for (std::int64_t i = 0; i < groups * shape.out; ++i) {
      const auto value = static_cast<float>(0.002 + 0.05 * rng_.uniform());
      add(value, shape.scales);
    }
    matrix_.scales = {shape.scales, scales_};
    if (!shape.ordered) return;
    std::vector<std::int32_t> of(static_cast<std::size_t>(shape.in));
    for (std::size_t i = 0; i < of.size(); ++i)
      of[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / shape.group);
    for (std::size_t i = of.size() - 1; i > 0; --i) std::swap(of[i], of[rng_.below(i + 1)]);
    kept_.emplace_back(std::as_bytes(std::span(of)).begin(), std::as_bytes(std::span(of)).end());
    matrix_.group_of = {DType::kI32, kept_.back()};
  }

  const StoredMatrix& matrix() const { return matrix_; }
  StoredMatrix dequantised() const {
    StoredMatrix matrix = matrix_;
    matrix.dequantize = true;
    return matrix;
  }
  // The length of each row of weights.
  std::vector<double> norms() const {
    Matrix weights(matrix_.out(), matrix_.in());
    StoredMatrixReader(matrix_).read(0, matrix_.out(), 0, matrix_.in(),
                                     weights.view().row<float>(0), weights.view().stride());
    return weights.norms();
  }

 private:
  StoredValues random(std::int64_t bytes) {
    std::vector<std::byte> values(static_cast<std::size_t>(bytes));
    for (std::byte& value : values) value = static_cast<std::byte>(rng_.below(256));
    kept_.push_back(std::move(values));
    return {DType::kI32, kept_.back()};
  }
  void add(float value, DType type) {
    const std::uint16_t half = type == DType::kF16 ? to_f16(value).bits : to_bf16(value).bits;
    const auto bytes = type == DType::kF32 ? std::as_bytes(std::span(&value, 1))
                                           : std::as_bytes(std::span(&half, 1));
    scales_.insert(scales_.end(), bytes.begin(), bytes.end());
  }

  Rng rng_;
  std::deque<std::vector<std::byte>> kept_;
  std::vector<std::byte> scales_;
  StoredMatrix matrix_;
};

// Random blocks of Q4_K with the memory they are views of.
class SuperBlocks {
 public:
  SuperBlocks(std::int64_t out, std::int64_t in, std::uint64_t seed = 1) {
    constexpr std::size_t kBytes = 144;
    Rng rng(seed);
    blocks_.resize(static_cast<std::size_t>(out * in / SuperBlock::kElements) * kBytes);
    for (std::byte& byte : blocks_) byte = static_cast<std::byte>(rng.below(256));
    for (std::size_t at = 0; at < blocks_.size(); at += kBytes) {
      set(at, static_cast<float>(rng.uniform() * 1e-3 - 1e-4),
          static_cast<float>(rng.uniform()) * 8e-3F);
    }
    matrix_.format = StoredMatrix::Format::kBlocks;
    matrix_.block = BlockType::kQ4K;
    matrix_.stored_out = matrix_.out_end = out;
    matrix_.stored_in = matrix_.in_end = in;
    matrix_.codes = {DType::kU8, blocks_};
    matrix_.rounds_activations = true;
  }
  SuperBlocks(const SuperBlocks&) = delete;
  SuperBlocks& operator=(const SuperBlocks&) = delete;

  const StoredMatrix& matrix() const { return matrix_; }
  // Every bit of codes, scales and minima.
  void fill(std::uint8_t bits, float d, float dmin) {
    std::ranges::fill(blocks_, static_cast<std::byte>(bits));
    for (std::size_t at = 0; at < blocks_.size(); at += 144) set(at, d, dmin);
  }

 private:
  void set(std::size_t at, float d, float dmin) {
    const std::uint16_t halves[] = {to_f16(d).bits, to_f16(dmin).bits};
    std::memcpy(blocks_.data() + at, halves, sizeof(halves));
  }

  std::vector<std::byte> blocks_;
  StoredMatrix matrix_;
};

// The definition of a row of bytes, less its scale, times output `out`.
inline float sum_of_super_blocks(const StoredMatrix& matrix, std::int64_t out,
                                 std::span<const std::int8_t> x) {
  float sum = 0;
  for (std::int64_t index = 0; index < matrix.in() / SuperBlock::kElements; ++index) {
    const SuperBlock block = super_block(matrix, out, index);
    std::int32_t whole = 0;
    std::int32_t less = 0;
    for (std::int64_t i = 0; i < SuperBlock::kElements; ++i) {
      const int value = x[static_cast<std::size_t>(index * SuperBlock::kElements + i)];
      whole += value * block.codes[i] * block.scale[i / kBlockUnit];
      less -= value * block.minimum[i / kBlockUnit];
    }
    const float scaled = static_cast<float>(whole) * to_float(block.d);
    const float taken = static_cast<float>(less) * to_float(block.dmin);
    const float value = scaled + taken;
    sum = sum + value;
  }
  return sum;
}

inline std::unique_ptr<PackedWeight> pack(Device& device, const StoredMatrix& matrix,
                                          DType compute) {
  return device.pack({&matrix, 1}, compute);
}

}  // namespace saccade
