// The blocks of a vision transformer and the memory that they work in: what towers of all families
// have in common. A family brings rows to it and makes embeddings of what it gives.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/blocks/blocks.h"
#include "model/blocks/scratch.h"
#include "model/towers/tower_run.h"

namespace saccade {

// What the vision_configs of SigLIP, CLIP and InternViT have in common; SigLIP's defaults.
struct VitExtents {
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t inner = 3072;  // of the MLP
  std::int64_t image = 224;   // pixels a side
  std::int64_t patch = 16;

  std::int64_t head_dim() const { return width / heads; }
};
// num_hidden_layers, hidden_size, num_attention_heads, intermediate_size, image_size and patch_size
// over what `extents` holds, of the section of this name. kUnsupported for those that do not fit
// each other, and for pixels of other than three channels.
Result<void> read_vit_extents(const json::object& section, std::string_view name,
                              VitExtents& extents);

struct VisionStackSettings {
  std::int64_t embed = 0;
  std::int64_t heads = 0;
  NormStyle norm;
  NormStyle qk_norm = {};  // of blocks whose queries and keys are normed over all heads
  Activation activation = Activation::kGeluTanh;
};

// Angles that queries and keys turn by, a row each; empty for towers with learnt positions alone.
struct VisionAngles {
  View cos;
  View sin;
};

class VisionStack {
 public:
  explicit VisionStack(const VisionStackSettings& settings) : settings_(settings) {}

  void set_compute(DType compute) { compute_ = compute; }
  // For rows whose attention is listed at once, and as many columns between an MLP's matrices;
  // normed() and room() have `slice` rows at the least.
  void add_scratch(Scratch& memory, DType type, std::int64_t rows, std::int64_t inner,
                   std::int64_t slice = 0);

  SegmentGeometry geometry() const {
    return {.heads = settings_.heads, .kv_heads = settings_.heads, .head_dim = head_dim()};
  }

  // x += attention(norm(x)), then x += mlp(norm(x)), of x's rows in the plan's segments.
  void block(WorkList& works, Stream& stream, std::size_t index, const SegmentPlan& plan,
             const VisionAngles& angles, View x) const;
  // The first of these alone, of any block.
  void attention(WorkList& works, Stream& stream, const VisionBlock& block, const SegmentPlan& plan,
                 const VisionAngles& angles, View x) const;

  // [rows, embed] for anybody's use between blocks.
  View normed(std::int64_t rows) const { return normed_.row_range(0, rows); }
  View room() const { return attention_; }
  View room(std::int64_t rows) const { return attention_.row_range(0, rows); }

  std::vector<VisionBlock> blocks;

 private:
  std::int64_t head_dim() const { return settings_.embed / settings_.heads; }
  void mix(WorkList& works, Stream& stream, const SegmentPlan& plan, View qkv, View out) const;

  VisionStackSettings settings_;
  DType compute_ = DType::kF32;
  View normed_;     // [rows, embed]
  View qkv_;        // [rows, 3 * embed]
  View attention_;  // [rows, embed]
  View mlp_;        // [kMlpRows, mlp_in's outputs]
};

// Multiply-adds of a row.
double row_cost(const Linear& linear);

}  // namespace saccade
