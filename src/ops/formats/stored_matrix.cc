#include "ops/formats/stored_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/rounding.h"
#include "ops/formats/dummy_rows.h"
#include "ops/formats/e8m0.h"

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
T load(const StoredValues& from, std::int64_t index) {
  T value;
  std::memcpy(&value, from.bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

float load_float(const StoredValues& from, std::int64_t index) {
  if (from.dtype == DType::kF32) return load<float>(from, index);
  if (from.dtype == DType::kF16) return to_float(load<F16>(from, index));
  // What safetensors calls F8_E8M0 has no DType of its own: nothing but scales is such.
  if (from.dtype == DType::kU8) return e8m0_number(load<std::uint8_t>(from, index));
  return to_float(load<Bf16>(from, index));
}

// `count` numbers that follow each other.
void widen(const StoredValues& from, std::int64_t first, std::int64_t count, float* into) {
  if (from.dtype != DType::kBf16) {
    for (std::int64_t i = 0; i < count; ++i) into[i] = load_float(from, first + i);
    return;
  }
  const std::byte* const bytes = from.bytes.data() + first * 2;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t half;
    std::memcpy(&half, bytes + i * 2, sizeof(half));
    into[i] = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  }
}

// 1 in each of a word's fields.
std::uint32_t ones(int bits) {
  std::uint32_t word = 0;
  for (int at = 0; at < kWordBits; at += bits) word |= 1u << at;
  return word;
}

void check_window(std::int64_t begin, std::int64_t end, std::int64_t count, const char* what) {
  CHECK(0 <= begin && begin <= end && end <= count, "{} [{}, {}) of {}", what, begin, end, count);
}

bool codes_in_words(StoredMatrix::Format format) {
  return format == StoredMatrix::Format::kAwq || format == StoredMatrix::Format::kGptq ||
         format == StoredMatrix::Format::kPacked;
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
  const bool by_place = format == Format::kDense || format == Format::kMade;
  CHECK(by_place && output_scale.empty(), "W^T of a matrix that is no floats");
  StoredMatrix other = *this;
  other.turned = !turned;
  std::swap(other.stored_out, other.stored_in);
  std::swap(other.out_begin, other.in_begin);
  std::swap(other.out_end, other.in_end);
  return other;
}

int codes_of_bits(const StoredMatrix& matrix) {
  const bool nibbles =
      matrix.format == StoredMatrix::Format::kBlocks && matrix.block == BlockType::kQ40;
  if (nibbles && matrix.output_scale.empty()) return 4;
  return codes_in_words(matrix.format) && matrix.output_scale.empty() ? matrix.bits : kWordBits;
}

std::vector<std::int32_t> groups_of_inputs(const StoredMatrix& matrix) {
  std::vector<std::int32_t> groups;
  for (std::int64_t i = matrix.in_begin; i < matrix.in_end; ++i)
    groups.push_back(matrix.group_of.empty() ? static_cast<std::int32_t>(i / matrix.group)
                                             : load<std::int32_t>(matrix.group_of, i));
  return groups;
}

bool has_super_blocks(const StoredMatrix& matrix) {
  return matrix.format == StoredMatrix::Format::kBlocks && matrix.block == BlockType::kQ4K &&
         matrix.in_begin % SuperBlock::kElements == 0 &&
         matrix.in_end % SuperBlock::kElements == 0 && matrix.output_scale.empty();
}

SuperBlock super_block(const StoredMatrix& matrix, std::int64_t out, std::int64_t block) {
  const std::int64_t at = (matrix.out_begin + out) * (matrix.stored_in / SuperBlock::kElements) +
                          matrix.in_begin / SuperBlock::kElements + block;
  return read_super_block(matrix.codes.bytes.data() + at * block_format(matrix.block).bytes);
}

bool has_byte_rows(const StoredMatrix& matrix) {
  return matrix.format == StoredMatrix::Format::kInt8 && matrix.block_in >= matrix.stored_in &&
         matrix.output_scale.empty();
}

float copy_byte_row(const StoredMatrix& matrix, std::int64_t out, std::span<std::int8_t> codes) {
  CHECK(has_byte_rows(matrix) && std::ssize(codes) == matrix.in(), "no row of {} bytes",
        codes.size());
  const std::int64_t row = matrix.out_begin + out;
  if (!codes.empty())
    std::memcpy(codes.data(), matrix.codes.bytes.data() + row * matrix.stored_in + matrix.in_begin,
                codes.size());
  return load_float(matrix.scales, row / matrix.block_out);
}

std::int64_t e4m3_group(const StoredMatrix& matrix, std::int64_t step) {
  if (matrix.format != StoredMatrix::Format::kE4m3 || !matrix.output_scale.empty()) return 0;
  if (matrix.in_begin / matrix.block_in == (matrix.in_end - 1) / matrix.block_in)
    return matrix.in();
  const bool fits = matrix.block_in % step == 0 && matrix.in_begin % matrix.block_in == 0;
  return fits ? matrix.block_in : 0;
}

std::int64_t shared_e4m3_group(std::span<const StoredMatrix> parts) {
  const std::int64_t group = e4m3_group(parts.front(), kE4m3Step);
  const auto alike = [&](const StoredMatrix& part) {
    return part.in() > 0 && e4m3_group(part, kE4m3Step) == group;
  };
  return std::ranges::all_of(parts, alike) ? group : 0;
}

float shared_input_scale(std::span<const StoredMatrix> parts) {
  float most = 0;
  for (const StoredMatrix& part : parts) {
    if (!(part.input_scale > 0)) return 0;
    most = std::max(most, part.input_scale);
  }
  return most;
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
  if (m.format == StoredMatrix::Format::kE4m3 || m.format == StoredMatrix::Format::kInt8) {
    scale_cols_ = ceil_div(m.stored_in, m.block_in);
    const std::int64_t count = ceil_div(m.stored_out, m.block_out) * scale_cols_;
    scales_.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      scales_[static_cast<std::size_t>(i)] = load_float(m.scales, i);
  } else if (codes_in_words(m.format)) {
    read_grid();
  } else if (has_four_bit_codes()) {
    read_block_grid();
  }
  if (m.output_scale.empty()) return;
  CHECK(m.output_scale.cols() == m.stored_out, "{} scales of {} outputs", m.output_scale.cols(),
        m.stored_out);
  const StoredMatrix scale = m.output_scale;
  for (std::int64_t o = m.out_begin; o < m.out_end; ++o)
    output_scale_.push_back(load_float(scale.codes, o));
}

std::int64_t StoredMatrixReader::group_count() const {
  return static_cast<std::int64_t>(matrix_.scales.bytes.size() / size_of(matrix_.scales.dtype)) /
         matrix_.stored_out;
}

void StoredMatrixReader::read_grid() {
  const StoredMatrix& m = matrix_;
  const bool awq = m.format == StoredMatrix::Format::kAwq;
  const bool by_output = m.format == StoredMatrix::Format::kPacked;
  const std::int64_t per_word = kWordBits / m.bits;
  const std::uint32_t mask = (1u << m.bits) - 1;
  const std::uint32_t borrowed = m.zeros_less_one ? ones(m.bits) : 0;
  const std::int64_t groups = group_count();
  scales_.reserve(static_cast<std::size_t>(groups * m.out()));
  zeros_.reserve(static_cast<std::size_t>(groups * m.out()));
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::int64_t o = m.out_begin; o < m.out_end; ++o) {
      const std::int64_t at = by_output ? o * groups + group : group * m.stored_out + o;
      scales_.push_back(load_float(m.scales, at));
      if (m.zeros.empty()) {
        zeros_.push_back(static_cast<std::uint8_t>(1u << (m.bits - 1)));
        continue;
      }
      // The writer subtracted one from each field, borrowing between them: adding the ones back to
      // the whole word undoes it.
      const std::int64_t word_at = by_output ? o / per_word * groups + group : at / per_word;
      const std::uint32_t word = load<std::uint32_t>(m.zeros, word_at) + borrowed;
      const std::int64_t field = o % per_word;
      const int shift =
          (awq ? kAwqNibble[static_cast<std::size_t>(field)] : static_cast<int>(field)) * m.bits;
      zeros_.push_back(static_cast<std::uint8_t>(word >> shift & mask));
    }
  }
  group_of_ = groups_of_inputs(m);
}

// Of Q4_0: a half before sixteen bytes of codes, whose middle is zero.
void StoredMatrixReader::read_block_grid() {
  const StoredMatrix& m = matrix_;
  const BlockFormat& format = block_format(m.block);
  const std::int64_t groups = m.stored_in / format.elements;
  scales_.reserve(static_cast<std::size_t>(groups * m.out()));
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::int64_t o = m.out_begin; o < m.out_end; ++o) {
      F16 scale;
      std::memcpy(&scale, m.codes.bytes.data() + (o * groups + group) * format.bytes,
                  sizeof(scale));
      scales_.push_back(to_float(scale));
    }
  }
  zeros_.assign(scales_.size(), 8);
  for (std::int64_t i = m.in_begin; i < m.in_end; ++i)
    group_of_.push_back(static_cast<std::int32_t>(i / format.elements));
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
    case StoredMatrix::Format::kDense:
      read_numbers(whole);
      break;
    case StoredMatrix::Format::kAwq:
    case StoredMatrix::Format::kGptq:
    case StoredMatrix::Format::kPacked:
      read_integers(whole);
      break;
    case StoredMatrix::Format::kE4m3:
    case StoredMatrix::Format::kInt8:
      read_bytes(whole);
      break;
    case StoredMatrix::Format::kBlocks:
      read_blocks(whole);
      break;
    case StoredMatrix::Format::kMade:
      read_made(whole);
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
    if (!m.turned) {
      widen(m.codes, o * m.stride + tile.in_begin, tile.in_end - tile.in_begin, row);
      continue;
    }
    for (std::int64_t i = tile.in_begin; i < tile.in_end; ++i)
      row[i - tile.in_begin] = load_float(m.codes, i * m.stride + o);
  }
}

template <typename Store>
void StoredMatrixReader::each_code(std::int64_t out_begin, std::int64_t out_end,
                                   std::int64_t in_begin, std::int64_t in_end,
                                   Store&& store) const {
  const StoredMatrix& m = matrix_;
  const auto per_word = static_cast<std::int64_t>(kWordBits / m.bits);
  const std::uint32_t mask = (1u << m.bits) - 1;
  for (std::int64_t i = in_begin; i < in_end; ++i) {
    if (m.format == StoredMatrix::Format::kBlocks) {
      // Codes 0 to 15 of Q4_0 are the low nibbles, the others the high ones.
      const BlockFormat& format = block_format(m.block);
      const std::int64_t row_bytes = m.stored_in / format.elements * format.bytes;
      const std::int64_t at = i % format.elements;
      const std::byte* const byte =
          m.codes.bytes.data() + i / format.elements * format.bytes + format.bytes - 16 + at % 16;
      for (std::int64_t o = out_begin; o < out_end; ++o)
        store(o, i, std::to_integer<std::uint32_t>(byte[o * row_bytes]) >> at / 16 * 4 & 15U);
    } else if (m.format == StoredMatrix::Format::kAwq) {
      const std::int64_t words = i * (m.stored_out / per_word);
      for (std::int64_t o = out_begin; o < out_end; ++o)
        store(o, i,
              load<std::uint32_t>(m.codes, words + o / per_word) >>
                      (kAwqNibble[static_cast<std::size_t>(o % per_word)] * m.bits) &
                  mask);
    } else if (m.format == StoredMatrix::Format::kPacked) {
      const std::int64_t row_words = ceil_div(m.stored_in, per_word);
      const auto shift = static_cast<int>(i % per_word) * m.bits;
      for (std::int64_t o = out_begin; o < out_end; ++o)
        store(o, i, load<std::uint32_t>(m.codes, o * row_words + i / per_word) >> shift & mask);
    } else {
      const std::int64_t words = i / per_word * m.stored_out;
      const auto shift = static_cast<int>(i % per_word) * m.bits;
      for (std::int64_t o = out_begin; o < out_end; ++o)
        store(o, i, load<std::uint32_t>(m.codes, words + o) >> shift & mask);
    }
  }
}

void StoredMatrixReader::read_integers(const Tile& tile) const {
  const StoredMatrix& m = matrix_;
  const float* const scales = scales_.data();
  const std::uint8_t* const zeros = zeros_.data();
  each_code(tile.out_begin, tile.out_end, tile.in_begin, tile.in_end,
            [&](std::int64_t o, std::int64_t i, std::uint32_t code) {
              const std::int64_t at =
                  group_of_[static_cast<std::size_t>(i - m.in_begin)] * m.out() + o - m.out_begin;
              const int level = static_cast<int>(code) - static_cast<int>(zeros[at]);
              tile.row(o)[i - tile.in_begin] = static_cast<float>(level) * scales[at];
            });
}

void StoredMatrixReader::read_codes(std::int64_t out_begin, std::int64_t out_end,
                                    std::int64_t in_begin, std::int64_t in_end, std::uint8_t* tile,
                                    std::int64_t stride) const {
  const StoredMatrix& m = matrix_;
  check_window(out_begin, out_end, m.out(), "outputs");
  check_window(in_begin, in_end, m.in(), "inputs");
  const std::int64_t first_out = m.out_begin + out_begin;
  const std::int64_t first_in = m.in_begin + in_begin;
  each_code(first_out, m.out_begin + out_end, first_in, m.in_begin + in_end,
            [&](std::int64_t o, std::int64_t i, std::uint32_t code) {
              tile[(o - first_out) * stride + (i - first_in)] = static_cast<std::uint8_t>(code);
            });
}

void StoredMatrixReader::read_bytes(const Tile& tile) const {
  const StoredMatrix& m = matrix_;
  const bool integers = m.format == StoredMatrix::Format::kInt8;
  for (std::int64_t o = tile.out_begin; o < tile.out_end; ++o) {
    const std::int64_t scales = o / m.block_out * scale_cols_;
    const std::byte* const codes = m.codes.bytes.data() + o * m.stored_in;
    float* const row = tile.row(o);
    for (std::int64_t i = tile.in_begin; i < tile.in_end; ++i) {
      const auto code = std::to_integer<std::uint8_t>(codes[i]);
      row[i - tile.in_begin] =
          (integers ? static_cast<float>(static_cast<std::int8_t>(code)) : kE4m3[code]) *
          scales_[static_cast<std::size_t>(scales + i / m.block_in)];
    }
  }
}

void StoredMatrixReader::read_blocks(const Tile& tile) const {
  const StoredMatrix& m = matrix_;
  const BlockFormat& format = block_format(m.block);
  const std::int64_t blocks = m.stored_in / format.elements;
  float unit[kBlockUnit];
  for (std::int64_t o = tile.out_begin; o < tile.out_end; ++o) {
    const std::byte* const blocks_of_row = m.codes.bytes.data() + o * blocks * format.bytes;
    float* const row = tile.row(o);
    for (std::int64_t i = tile.in_begin; i < tile.in_end;) {
      const std::int64_t first = i / kBlockUnit * kBlockUnit;
      const std::int64_t end = std::min(first + kBlockUnit, tile.in_end);
      const bool whole = i == first && end == first + kBlockUnit;
      float* const into = whole ? row + (i - tile.in_begin) : unit;
      dequantize_unit(m.block, blocks_of_row + first / format.elements * format.bytes,
                      first % format.elements / kBlockUnit, into);
      if (!whole) std::copy(unit + (i - first), unit + (end - first), row + (i - tile.in_begin));
      i = end;
    }
  }
}

void StoredMatrixReader::read_made(const Tile& tile) const {
  const StoredMatrix& m = matrix_;
  for (std::int64_t o = tile.out_begin; o < tile.out_end; ++o) {
    float* const row = tile.row(o);
    if (!m.turned) {
      make_dummy_values(m.made, m.made_first + o * m.stride + tile.in_begin,
                        {row, static_cast<std::size_t>(tile.in_end - tile.in_begin)});
      continue;
    }
    for (std::int64_t i = tile.in_begin; i < tile.in_end; ++i)
      row[i - tile.in_begin] =
          to_float(to_bf16(dummy_value(m.made, m.made_first + i * m.stride + o)));
  }
}

}  // namespace saccade
