#include "ops/formats/block_codes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace saccade {
namespace {

constexpr std::int64_t kSuper = 256;  // elements of a block of the K types

// By BlockType. ggml's block_q4_0, ...
constexpr std::array<BlockFormat, 12> kFormats = {{
    {BlockType::kQ40, "Q4_0", 32, 18},       // f16 d; 16 bytes of nibbles
    {BlockType::kQ41, "Q4_1", 32, 20},       // f16 d, m; nibbles
    {BlockType::kQ50, "Q5_0", 32, 22},       // f16 d; u32 fifth bits; nibbles
    {BlockType::kQ51, "Q5_1", 32, 24},       // f16 d, m; u32 fifth bits; nibbles
    {BlockType::kQ80, "Q8_0", 32, 34},       // f16 d; 32 bytes
    {BlockType::kQ2K, "Q2_K", kSuper, 84},   // 16 scales and minima; 64 of codes; f16 d, dmin
    {BlockType::kQ3K, "Q3_K", kSuper, 110},  // 32 of high bits; 64 of codes; 12 of scales; f16 d
    {BlockType::kQ4K, "Q4_K", kSuper, 144},  // f16 d, dmin; 12 of scales; 128 of nibbles
    {BlockType::kQ5K, "Q5_K", kSuper, 176},  // the same, with 32 of fifth bits before the nibbles
    {BlockType::kQ6K, "Q6_K", kSuper, 210},  // 128 of nibbles; 64 of high bits; 16 scales; f16 d
    {BlockType::kIq4Nl, "IQ4_NL", 32, 18},   // as Q4_0, codes by a table
    {BlockType::kIq4Xs, "IQ4_XS", kSuper, 136},  // f16 d; u16 and 4 of scales; 128 of nibbles
}};

// What a code of the IQ4 types stands for.
constexpr std::array<float, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};

int byte_at(const std::byte* from, std::int64_t at) { return std::to_integer<int>(from[at]); }

float half_at(const std::byte* from) {
  F16 half;
  std::memcpy(&half, from, sizeof(half));
  return to_float(half);
}

// Element i of 32: the low nibbles of 16 bytes, then their high ones.
int nibble_of_half(const std::byte* codes, std::int64_t i) {
  return i < 16 ? byte_at(codes, i) & 15 : byte_at(codes, i - 16) >> 4;
}

std::uint32_t word_at(const std::byte* from) {
  std::uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

void read_4(const std::byte* block, bool has_minimum, float* into) {
  const float d = half_at(block);
  const float m = has_minimum ? half_at(block + 2) : 0;
  const std::byte* const codes = block + (has_minimum ? 4 : 2);
  for (std::int64_t i = 0; i < kBlockUnit; ++i) {
    const int code = nibble_of_half(codes, i);
    into[i] = has_minimum ? d * static_cast<float>(code) + m : d * static_cast<float>(code - 8);
  }
}

void read_5(const std::byte* block, bool has_minimum, float* into) {
  const float d = half_at(block);
  const float m = has_minimum ? half_at(block + 2) : 0;
  const std::byte* const high = block + (has_minimum ? 4 : 2);
  const std::uint32_t fifth = word_at(high);
  for (std::int64_t i = 0; i < kBlockUnit; ++i) {
    const int code = nibble_of_half(high + 4, i) | static_cast<int>(fifth >> i & 1U) << 4;
    into[i] = has_minimum ? d * static_cast<float>(code) + m : d * static_cast<float>(code - 16);
  }
}

void read_8(const std::byte* block, float* into) {
  const float d = half_at(block);
  for (std::int64_t i = 0; i < kBlockUnit; ++i)
    into[i] = static_cast<float>(static_cast<std::int8_t>(byte_at(block, 2 + i))) * d;
}

void read_2k(const std::byte* block, std::int64_t unit, float* into) {
  const std::byte* const codes = block + 16 + unit / 4 * 32;
  const float d = half_at(block + 80);
  const float minimum = half_at(block + 82);
  for (std::int64_t i = 0; i < kBlockUnit; ++i) {
    const int scale = byte_at(block, unit * 2 + i / 16);
    const float by = d * static_cast<float>(scale & 15);
    const float less = minimum * static_cast<float>(scale >> 4);
    into[i] = by * static_cast<float>(byte_at(codes, i) >> unit % 4 * 2 & 3) - less;
  }
}

// Sixteen scales of six bits in twelve bytes: eight of two low nibbles, four of four high pairs.
int scale_of_3k(const std::byte* scales, std::int64_t at) {
  const int low = byte_at(scales, at % 8) >> at / 8 * 4 & 15;
  const int high = byte_at(scales, 8 + at % 4) >> at / 4 * 2 & 3;
  return (low | high << 4) - 32;
}

void read_3k(const std::byte* block, std::int64_t unit, float* into) {
  const std::byte* const codes = block + 32 + unit / 4 * 32;
  const float d = half_at(block + 108);
  for (std::int64_t i = 0; i < kBlockUnit; ++i) {
    const float by = d * static_cast<float>(scale_of_3k(block + 96, unit * 2 + i / 16));
    // A high bit that is not set takes four off.
    const int less = (byte_at(block, i) >> unit & 1) == 0 ? 4 : 0;
    into[i] = by * static_cast<float>((byte_at(codes, i) >> unit % 4 * 2 & 3) - less);
  }
}

struct ScaleAndMinimum {
  int scale;
  int minimum;
};

// Eight of each, of six bits, in twelve bytes: the first four's whole, above them the high pairs of
// the last four's, whose nibbles are in the last four bytes.
ScaleAndMinimum grid_of_45k(const std::byte* scales, std::int64_t at) {
  if (at < 4) return {byte_at(scales, at) & 63, byte_at(scales, at + 4) & 63};
  const int nibbles = byte_at(scales, at + 4);
  return {(nibbles & 15) | (byte_at(scales, at - 4) >> 2 & 48),
          nibbles >> 4 | (byte_at(scales, at) >> 2 & 48)};
}

void read_45k(const std::byte* block, std::int64_t unit, bool has_fifth, float* into) {
  const ScaleAndMinimum grid = grid_of_45k(block + 4, unit);
  const float by = half_at(block) * static_cast<float>(grid.scale);
  const float less = half_at(block + 2) * static_cast<float>(grid.minimum);
  const std::byte* const fifth = block + 16;
  const std::byte* const codes = block + (has_fifth ? 48 : 16) + unit / 2 * 32;
  for (std::int64_t i = 0; i < kBlockUnit; ++i) {
    int code = byte_at(codes, i) >> unit % 2 * 4 & 15;
    if (has_fifth) code |= (byte_at(fifth, i) >> unit & 1) << 4;
    into[i] = by * static_cast<float>(code) - less;
  }
}

void read_6k(const std::byte* block, std::int64_t unit, float* into) {
  const std::int64_t half = unit / 4;
  const std::byte* const low = block + half * 64 + unit % 2 * 32;
  const std::byte* const high = block + 128 + half * 32;
  const float d = half_at(block + 208);
  for (std::int64_t i = 0; i < kBlockUnit; ++i) {
    const auto scale = static_cast<std::int8_t>(byte_at(block, 192 + unit * 2 + i / 16));
    const int code =
        (byte_at(low, i) >> unit % 4 / 2 * 4 & 15) | (byte_at(high, i) >> unit % 4 * 2 & 3) << 4;
    into[i] = d * static_cast<float>(scale) * static_cast<float>(code - 32);
  }
}

void read_iq4(const std::byte* codes, float by, float* into) {
  for (std::int64_t i = 0; i < kBlockUnit; ++i)
    into[i] = by * kIq4[static_cast<std::size_t>(nibble_of_half(codes, i))];
}

void read_iq4xs(const std::byte* block, std::int64_t unit, float* into) {
  const int low = byte_at(block, 4 + unit / 2) >> unit % 2 * 4 & 15;
  const int high = (byte_at(block, 2) | byte_at(block, 3) << 8) >> unit * 2 & 3;
  const float by = half_at(block) * static_cast<float>((low | high << 4) - 32);
  read_iq4(block + 8 + unit * 16, by, into);
}

}  // namespace

std::span<const BlockFormat> block_formats() { return kFormats; }

const BlockFormat& block_format(BlockType type) { return kFormats[static_cast<std::size_t>(type)]; }

std::optional<BlockType> block_type(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &BlockFormat::name);
  if (found == kFormats.end()) return std::nullopt;
  return found->type;
}

SuperBlock read_super_block(const std::byte* block) {
  SuperBlock read;
  std::memcpy(&read.d, block, sizeof(F16));
  std::memcpy(&read.dmin, block + sizeof(F16), sizeof(F16));
  for (std::int64_t unit = 0; unit < SuperBlock::kUnits; ++unit) {
    const ScaleAndMinimum grid = grid_of_45k(block + 4, unit);
    read.scale[unit] = static_cast<std::uint8_t>(grid.scale);
    read.minimum[unit] = static_cast<std::uint8_t>(grid.minimum);
    const std::byte* const codes = block + 16 + unit / 2 * 32;
    for (std::int64_t i = 0; i < kBlockUnit; ++i)
      read.codes[unit * kBlockUnit + i] =
          static_cast<std::uint8_t>(byte_at(codes, i) >> unit % 2 * 4 & 15);
  }
  return read;
}

void dequantize_unit(BlockType type, const std::byte* block, std::int64_t unit, float* into) {
  switch (type) {
    case BlockType::kQ40:
      return read_4(block, false, into);
    case BlockType::kQ41:
      return read_4(block, true, into);
    case BlockType::kQ50:
      return read_5(block, false, into);
    case BlockType::kQ51:
      return read_5(block, true, into);
    case BlockType::kQ80:
      return read_8(block, into);
    case BlockType::kQ2K:
      return read_2k(block, unit, into);
    case BlockType::kQ3K:
      return read_3k(block, unit, into);
    case BlockType::kQ4K:
      return read_45k(block, unit, false, into);
    case BlockType::kQ5K:
      return read_45k(block, unit, true, into);
    case BlockType::kQ6K:
      return read_6k(block, unit, into);
    case BlockType::kIq4Nl:
      return read_iq4(block + 2, half_at(block), into);
    case BlockType::kIq4Xs:
      return read_iq4xs(block, unit, into);
  }
}

void dequantize_blocks(BlockType type, std::span<const std::byte> bytes, float* into) {
  const BlockFormat& format = block_format(type);
  const auto length = static_cast<std::size_t>(format.bytes);
  CHECK(bytes.size() % length == 0, "{} bytes of {} are no whole blocks of {}", bytes.size(),
        format.name, length);
  for (std::size_t at = 0; at < bytes.size(); at += length) {
    for (std::int64_t unit = 0; unit < format.elements / kBlockUnit; ++unit, into += kBlockUnit)
      dequantize_unit(type, bytes.data() + at, unit, into);
  }
}

}  // namespace saccade
