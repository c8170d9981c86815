// Rows of a weight table that several vision towers have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/blocks/blocks.h"
#include "model/checkpoint/weight_table.h"

namespace saccade {

// Learnt positions: [n, width] f32, for mix_rows.
struct PositionRows {
  Buffer storage;
  View view;
};

// `name` is the tensor's whole name.
void add_position_rows(WeightTable& table, PositionRows& into, const std::string& name,
                       std::int64_t n, std::int64_t width);

// NAME.weight of `shape` [out, ...] as [out, product of the rest], whose inputs are `count`
// patches' values of one channel, then those of the next, for rows that have one patch after the
// other.
void add_joining(WeightTable& table, Linear& into, const std::string& name,
                 std::vector<std::int64_t> shape, std::int64_t count);

// Tensors of a block, below its prefix: queries, keys and values are one matrix or three, what an
// MLP begins with two where it is gated.
struct VisionBlockNames {
  std::string attention_norm;
  std::vector<std::string> qkv;
  std::string attention_out;
  std::string mlp_norm;
  std::vector<std::string> mlp_in;
  std::string mlp_out;
};
extern const VisionBlockNames kSiglipBlockNames;

struct VisionBlockShape {
  std::int64_t embed = 0;
  std::int64_t inner = 0;  // of the MLP
  NormStyle norm;
  Bias qkv_bias = Bias::kYes;
  Bias out_bias = Bias::kYes;  // of what attention ends with
  Bias mlp_bias = Bias::kYes;
};

void add_vision_block(WeightTable& table, VisionBlock& block, const std::string& at,
                      const VisionBlockNames& names, const VisionBlockShape& shape);
// A block's norm and attention alone.
void add_vision_attention(WeightTable& table, VisionBlock& block, const std::string& at,
                          const VisionBlockNames& names, const VisionBlockShape& shape);
// `count` of them, "AT0." and so on.
void add_vision_blocks(WeightTable& table, std::vector<VisionBlock>& blocks, std::int64_t count,
                       const std::string& at, const VisionBlockNames& names,
                       const VisionBlockShape& shape);

}  // namespace saccade
