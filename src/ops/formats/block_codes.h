// Weights in blocks of a fixed number of consecutive inputs, codes and scales together, as ggml has
// them (GGUF files). Layouts: the structs of ggml's documentation; values: bit for bit what its
// Python package `gguf` makes of them (tests/golden/gguf/blocks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace saccade {

enum class BlockType : std::uint8_t {
  kQ40,
  kQ41,
  kQ50,
  kQ51,
  kQ80,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Nl,
  kIq4Xs,
};

struct BlockFormat {
  BlockType type;
  std::string_view name;  // as ggml writes it: "Q4_K"
  std::int64_t elements;  // of a block: a multiple of kBlockUnit
  std::int64_t bytes;     // of a block
};

std::span<const BlockFormat> block_formats();
const BlockFormat& block_format(BlockType type);
// Nothing for another name.
std::optional<BlockType> block_type(std::string_view name);

// What is read at a time.
constexpr std::int64_t kBlockUnit = 32;

// A block of Q4_K: element i is code * (d * scale) - dmin * minimum, of scale and minimum of its
// unit.
struct SuperBlock {
  static constexpr std::int64_t kElements = 256;
  static constexpr std::int64_t kUnits = kElements / kBlockUnit;
  F16 d;
  F16 dmin;
  std::uint8_t scale[kUnits];  // below 64
  std::uint8_t minimum[kUnits];
  std::uint8_t codes[kElements];  // below 16
};
SuperBlock read_super_block(const std::byte* block);

// Elements [unit * kBlockUnit, (unit + 1) * kBlockUnit) of the block that begins at `block`.
void dequantize_unit(BlockType type, const std::byte* block, std::int64_t unit, float* into);
// Whole blocks, `bytes` a multiple of their length; `into` has room for all their elements.
void dequantize_blocks(BlockType type, std::span<const std::byte> bytes, float* into);

}  // namespace saccade
