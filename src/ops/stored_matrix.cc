#include "ops/stored_matrix.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"

namespace saccade {
namespace {

constexpr int kWordBits = 32;

// Where AWQ's kernels want output o of eight: in this nibble of the word.
constexpr std::array<int, 8> kAwqNibble = {0, 4, 1, 5, 2, 6, 3, 7};

// float8_e4m3fn: no infinities; all ones is NaN.
constexpr std::array<float, 256> make_e4m3() {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15;
    const int mantissa = code & 7;
    float value = exponent == 0 ? static_cast<float>(mantissa) : static_cast<float>(8 + mantissa);
    for (int i = exponent == 0 ? 1 : exponent; i < 10; ++i) value /= 2;
    for (int i = 10; i < exponent; ++i) value *= 2;
    if (exponent == 15 && mantissa == 7) value = std::numeric_limits<float>::quiet_NaN();
    values[static_cast<std::size_t>(code)] = code < 128 ? value : -value;
  }
  return values;
}
constexpr std::array<float, 256> kE4m3 = make_e4m3();

template <typename T>
T load(const StoredNumbers& from, std::int64_t index) {
  T value;
  std::memcpy(&value, from.bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

float load_float(const StoredNumbers& from, std::int64_t index) {
  if (from.dtype == DType::kF32) return load<float>(from, index);
  if (from.dtype == DType::kF16) return to_float(load<F16>(from, index));
  return to_float(load<Bf16>(from, index));
}

// 1 in each of a word's fields.
std::uint32_t ones(int bits) {
  std::uint32_t word = 0;
  for (int at = 0; at < kWordBits; at += bits) word |= 1u << at;
  return word;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void check_window(std::int64_t begin, std::int64_t end, std::int64_t count, const char* what) {
  CHECK(0 <= begin && begin <= end && end <= count, "{} [{}, {}) of {}", what, begin, end, count);
}

}  // namespace

StoredMatrix::StoredMatrix(View numbers)
    : stored_out(numbers.rows()),
      stored_in(numbers.cols()),
      codes{numbers.dtype(),
            {numbers.data(), numbers.rows() == 0
                                 ? 0
                                 : static_cast<std::size_t>(
                                       (numbers.rows() - 1) * numbers.stride() + numbers.cols()) *
                                       size_of(numbers.dtype())}},
      stride(numbers.stride()),
      out_end(numbers.rows()),
      in_end(numbers.cols()) {}

StoredMatrix StoredMatrix::outputs(std::int64_t begin, std::int64_t end) const {
  check_window(begin, end, out(), "outputs");
  StoredMatrix window = *this;
  window.out_begin = out_begin + begin;
  window.out_end = out_begin + end;
  return window;
}

StoredMatrix StoredMatrix::inputs(std::int64_t begin, std::int64_t end) const {
  check_window(begin, end, in(), "inputs");
  StoredMatrix window = *this;
  window.in_begin = in_begin + begin;
  window.in_end = in_begin + end;
  return window;
}

StoredMatrix StoredMatrix::transposed() const {
  CHECK(format == Format::kNumbers && output_scale.empty(), "W^T of a matrix that is no floats");
  StoredMatrix other = *this;
  other.turned = !turned;
  std::swap(other.stored_out, other.stored_in);
  std::swap(other.out_begin, other.in_begin);
  std::swap(other.out_end, other.in_end);
  return other;
}

// In coordinates of the whole matrix.
struct StoredMatrixReader::Tile {
  std::int64_t out_begin;
  std::int64_t out_end;
  std::int64_t in_begin;
  std::int64_t in_end;
  float* into;
  std::int64_t stride;

  float* row(std::int64_t out) const { return into + (out - out_begin) * stride; }
};

StoredMatrixReader::StoredMatrixReader(const StoredMatrix& matrix) : matrix_(matrix) {
  const StoredMatrix& m = matrix_;
  if (m.format == StoredMatrix::Format::kE4m3) {
    scale_cols_ = ceil_div(m.stored_in, m.block_in);
    const std::int64_t count = ceil_div(m.stored_out, m.block_out) * scale_cols_;
    scales_.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      scales_[static_cast<std::size_t>(i)] = load_float(m.scales, i);
  } else if (m.format != StoredMatrix::Format::kNumbers) {
    read_grid();
  }
  if (m.output_scale.empty()) return;
  CHECK(m.output_scale.cols() == m.stored_out, "{} scales of {} outputs", m.output_scale.cols(),
        m.stored_out);
  const StoredMatrix scale = m.output_scale;
  for (std::int64_t o = m.out_begin; o < m.out_end; ++o)
    output_scale_.push_back(load_float(scale.codes, o));
}

void StoredMatrixReader::read_grid() {
  const StoredMatrix& m = matrix_;
  const bool awq = m.format == StoredMatrix::Format::kAwq;
  const std::int64_t per_word = kWordBits / m.bits;
  const std::uint32_t mask = (1u << m.bits) - 1;
  const std::uint32_t borrowed = m.zeros_less_one ? ones(m.bits) : 0;
  const std::int64_t groups =
      static_cast<std::int64_t>(m.scales.bytes.size() / size_of(m.scales.dtype)) / m.stored_out;
  scales_.reserve(static_cast<std::size_t>(groups * m.out()));
  zeros_.reserve(static_cast<std::size_t>(groups * m.out()));
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::int64_t o = m.out_begin; o < m.out_end; ++o) {
      const std::int64_t at = group * m.stored_out + o;
      // The writer subtracted one from each field, borrowing between them: adding the ones back to
      // the whole word undoes it.
      const std::uint32_t word = load<std::uint32_t>(m.zeros, at / per_word) + borrowed;
      const std::int64_t field = o % per_word;
      const int shift =
          (awq ? kAwqNibble[static_cast<std::size_t>(field)] : static_cast<int>(field)) * m.bits;
      scales_.push_back(load_float(m.scales, at));
      zeros_.push_back(static_cast<std::uint8_t>(word >> shift & mask));
    }
  }
  for (std::int64_t i = m.in_begin; i < m.in_end; ++i)
    group_of_.push_back(m.group_of.empty() ? static_cast<std::int32_t>(i / m.group)
                                           : load<std::int32_t>(m.group_of, i));
}

void StoredMatrixReader::read(std::int64_t out_begin, std::int64_t out_end, std::int64_t in_begin,
                              std::int64_t in_end, float* tile, std::int64_t stride) const {
  const StoredMatrix& m = matrix_;
  check_window(out_begin, out_end, m.out(), "outputs");
  check_window(in_begin, in_end, m.in(), "inputs");
  const Tile whole = {m.out_begin + out_begin,
                      m.out_begin + out_end,
                      m.in_begin + in_begin,
                      m.in_begin + in_end,
                      tile,
                      stride};
  switch (m.format) {
    case StoredMatrix::Format::kNumbers:
      read_numbers(whole);
      break;
    case StoredMatrix::Format::kAwq:
    case StoredMatrix::Format::kGptq:
      read_integers(whole);
      break;
    case StoredMatrix::Format::kE4m3:
      read_e4m3(whole);
      break;
  }
  if (output_scale_.empty()) return;
  for (std::int64_t o = out_begin; o < out_end; ++o) {
    const float scale = output_scale_[static_cast<std::size_t>(o)];
    float* const row = tile + (o - out_begin) * stride;
    for (std::int64_t i = 0; i < in_end - in_begin; ++i) row[i] *= scale;
  }
}

void StoredMatrixReader::read_numbers(const Tile& tile) const {
  const StoredMatrix& m = matrix_;
  for (std::int64_t o = tile.out_begin; o < tile.out_end; ++o) {
    float* const row = tile.row(o);
    for (std::int64_t i = tile.in_begin; i < tile.in_end; ++i)
      row[i - tile.in_begin] = load_float(m.codes, m.turned ? i * m.stride + o : o * m.stride + i);
  }
}

void StoredMatrixReader::read_integers(const Tile& tile) const {
  const StoredMatrix& m = matrix_;
  const bool awq = m.format == StoredMatrix::Format::kAwq;
  const auto per_word = static_cast<std::int64_t>(kWordBits / m.bits);
  const std::uint32_t mask = (1u << m.bits) - 1;
  for (std::int64_t i = tile.in_begin; i < tile.in_end; ++i) {
    const std::int64_t grid =
        group_of_[static_cast<std::size_t>(i - m.in_begin)] * m.out() - m.out_begin;
    const float* const scales = scales_.data();
    const std::uint8_t* const zeros = zeros_.data();
    float* const column = tile.into + (i - tile.in_begin);
    const auto store = [&](std::int64_t o, std::uint32_t code) {
      const int level = static_cast<int>(code & mask) -
                        static_cast<int>(zeros[static_cast<std::size_t>(grid + o)]);
      column[(o - tile.out_begin) * tile.stride] =
          static_cast<float>(level) * scales[static_cast<std::size_t>(grid + o)];
    };
    if (awq) {
      const std::int64_t words = i * (m.stored_out / per_word);
      for (std::int64_t o = tile.out_begin; o < tile.out_end; ++o)
        store(o, load<std::uint32_t>(m.codes, words + o / per_word) >>
                     (kAwqNibble[static_cast<std::size_t>(o % per_word)] * m.bits));
    } else {
      const std::int64_t words = i / per_word * m.stored_out;
      const auto shift = static_cast<int>(i % per_word) * m.bits;
      for (std::int64_t o = tile.out_begin; o < tile.out_end; ++o)
        store(o, load<std::uint32_t>(m.codes, words + o) >> shift);
    }
  }
}

void StoredMatrixReader::read_e4m3(const Tile& tile) const {
  const StoredMatrix& m = matrix_;
  for (std::int64_t o = tile.out_begin; o < tile.out_end; ++o) {
    const std::int64_t scales = o / m.block_out * scale_cols_;
    const std::byte* const codes = m.codes.bytes.data() + o * m.stored_in;
    float* const row = tile.row(o);
    for (std::int64_t i = tile.in_begin; i < tile.in_end; ++i)
      row[i - tile.in_begin] = kE4m3[std::to_integer<std::size_t>(codes[i])] *
                               scales_[static_cast<std::size_t>(scales + i / m.block_in)];
  }
}

}  // namespace saccade
