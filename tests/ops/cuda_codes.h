// For tests of weights that are kept as codes: matrices as checkpoints have them, and their
// numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "ops/formats/stored_matrix.h"

namespace saccade::cuda {

// Matrices over random bytes.
class Stored {
 public:
  using Format = StoredMatrix::Format;

  explicit Stored(std::uint64_t seed) : rng_(seed) {}

  StoredMatrix e4m3(std::int64_t out, std::int64_t in, std::int64_t block_out,
                    std::int64_t block_in) {
    StoredMatrix matrix = whole(Format::kE4m3, out, in);
    matrix.block_out = block_out;
    matrix.block_in = block_in;
    std::vector<std::byte> codes = bytes(out * in);
    for (std::byte& code : codes)  // no NaN
      if ((code & std::byte{0x7f}) == std::byte{0x7f}) code ^= std::byte{1};
    matrix.codes = {DType::kU8, keep(std::move(codes))};
    matrix.scales =
        floats((out + block_out - 1) / block_out * ((in + block_in - 1) / block_in), 0.002);
    return matrix;
  }
  // `ordered`: inputs are in groups of one size, but anywhere (act-order).
  StoredMatrix integers(Format format, std::int64_t out, std::int64_t in, std::int64_t group,
                        bool ordered = false) {
    StoredMatrix matrix = whole(format, out, in);
    const std::int64_t groups = (in + group - 1) / group;
    matrix.bits = 4;
    matrix.group = group;
    matrix.codes = {DType::kI32, keep(bytes(out * in / 2))};
    matrix.scales = floats(groups * out, 0.05);
    matrix.zeros = {DType::kI32, keep(bytes(groups * out / 2))};
    matrix.zeros_less_one = format == Format::kGptq;
    if (ordered) {
      std::vector<std::int32_t> group_of(static_cast<std::size_t>(in));
      for (std::size_t i = 0; i < group_of.size(); ++i)
        group_of[i] = static_cast<std::int32_t>(i / static_cast<std::size_t>(group));
      for (std::size_t i = group_of.size(); i > 1; --i)
        std::swap(group_of[i - 1], group_of[rng_.below(i)]);
      const auto raw = std::as_bytes(std::span(group_of));
      matrix.group_of = {DType::kI32, keep({raw.begin(), raw.end()})};
    }
    return matrix;
  }
  Rng& rng() { return rng_; }
  std::span<std::byte> bytes_of(const StoredValues& numbers) {  // to spoil them
    for (std::vector<std::byte>& kept : kept_)
      if (kept.data() == numbers.bytes.data()) return kept;
    return {};
  }

 private:
  static StoredMatrix whole(Format format, std::int64_t out, std::int64_t in) {
    StoredMatrix matrix;
    matrix.format = format;
    matrix.stored_out = matrix.out_end = out;
    matrix.stored_in = matrix.in_end = in;
    return matrix;
  }
  std::vector<std::byte> bytes(std::int64_t count) {
    std::vector<std::byte> values(static_cast<std::size_t>(count));
    for (std::byte& value : values) value = static_cast<std::byte>(rng_.below(256));
    return values;
  }
  std::span<const std::byte> keep(std::vector<std::byte> values) {
    return kept_.emplace_back(std::move(values));
  }
  StoredValues floats(std::int64_t count, double size) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(size * (0.5 + rng_.uniform())));
    const auto raw = std::as_bytes(std::span(values));
    return {DType::kF32, keep({raw.begin(), raw.end()})};
  }

  Rng rng_;
  std::deque<std::vector<std::byte>> kept_;
};

inline std::vector<float> numbers_of(const StoredMatrix& matrix) {
  std::vector<float> values(static_cast<std::size_t>(matrix.out() * matrix.in()));
  StoredMatrixReader(matrix).read(0, matrix.out(), 0, matrix.in(), values.data(), matrix.in());
  return values;
}

inline std::vector<float> random_bf16(std::int64_t count, Rng& rng) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(to_float(to_bf16(static_cast<float>(2 * rng.uniform() - 1))));
  return values;
}

struct StoredForm {
  const char* name;
  std::vector<StoredMatrix> parts;
  double bytes;  // a weight, at most, of that many weights; 0: it becomes numbers
};

inline std::vector<StoredForm> forms(Stored& stored) {
  const auto e4m3 = [&](std::int64_t block_out, std::int64_t block_in) {
    return stored.e4m3(136, 320, block_out, block_in);
  };
  const StoredMatrix awq = stored.integers(StoredMatrix::Format::kAwq, 136, 320, 64);
  const StoredMatrix ordered = stored.integers(StoredMatrix::Format::kGptq, 136, 320, 32, true);
  return {{"e4m3 a matrix", {e4m3(136, 320)}, 1.2},
          {"e4m3 an output", {e4m3(1, 320), e4m3(136, 320)}, 1.2},
          {"e4m3 a block", {e4m3(128, 128)}, 1.2},
          {"e4m3 small blocks and none", {e4m3(48, 32).outputs(3, 100), e4m3(1, 320)}, 1.4},
          {"e4m3 in a window", {e4m3(48, 64).inputs(64, 300)}, 1.4},
          {"e4m3 cut in a block", {e4m3(48, 64).inputs(60, 300)}, 0},
          {"awq 32", {stored.integers(StoredMatrix::Format::kAwq, 136, 320, 32)}, 0.8},
          {"awq 128", {stored.integers(StoredMatrix::Format::kAwq, 136, 320, 128)}, 0.8},
          {"awq halves", {awq.outputs(0, 77), awq.outputs(77, 136)}, 0.8},
          {"awq a row", {stored.integers(StoredMatrix::Format::kAwq, 136, 80, 80)}, 0.9},
          {"awq short groups", {stored.integers(StoredMatrix::Format::kAwq, 136, 320, 8)}, 0},
          {"gptq", {stored.integers(StoredMatrix::Format::kGptq, 136, 320, 64)}, 0.8},
          {"gptq act-order", {ordered.outputs(0, 40), ordered.outputs(50, 136)}, 0.9},
          {"gptq of two orders",
           {ordered, stored.integers(StoredMatrix::Format::kGptq, 136, 320, 32, true)},
           0}};
}

}  // namespace saccade::cuda
