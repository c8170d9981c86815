// InternViT, the tower of InternVL (arXiv:2312.14238): a ViT with a class token and LayerScale,
// whose features are gathered four to one before the projector (pixel shuffle). The 300M has
// LayerNorm and biased queries, keys and values; the 6B RMSNorm, normed queries and keys, no bias
// there.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/towers/tile_tower.h"

namespace saccade {

// How a checkpoint names the tower: as published with InternVL2, or as transformers does.
enum class InternVitNames { kOriginal, kTransformers };

struct InternVitSettings {
  TileTowerSettings tower;        // of the tiles as they are cut
  std::int64_t stored_side = 32;  // patches a side that the stored positions are for
  bool qkv_bias = true;
  bool qk_norm = false;
  bool transposed = false;  // columns of the gathered features first (ps_version v1)
  Activation projector = Activation::kGeluErf;
  std::int64_t out = 0;  // text width
  InternVitNames names = InternVitNames::kOriginal;

  static constexpr std::int64_t kMerge = 2;  // features a side that become one
  std::int64_t tile_tokens() const { return tower.patches() / (kMerge * kMerge); }
};

// vision_config, for tiles of `tile` pixels (0: as the configuration says) and features `unread`
// layers before the last. kUnsupported names what cannot be honoured.
Result<InternVitSettings> parse_intern_vit(const json::object& config, InternVitNames names,
                                           std::int64_t tile, std::int64_t unread);

// Taps of project(): vision.merged.
class InternVit final : public TileTower {
 public:
  explicit InternVit(InternVitSettings settings)
      : TileTower(settings.tower), intern_(std::move(settings)) {}

 protected:
  void add_tower(WeightTable& table, TileTowerWeights& weights,
                 std::vector<VisionBlock>& blocks) const override;
  void add_projector(WeightTable& table) override;
  void add_projector_scratch(Scratch& scratch, DType type, std::int64_t patch_rows) override;
  void project(WorkList& works, Stream& stream, const ImageLayout& layout, View features, View out,
               const Tap& tap) const override;

 private:
  void gather(Stream& stream, View features, std::int64_t first, View out) const;

  InternVitSettings intern_;
  Norm norm_;
  Linear in_;
  Linear to_text_;
  View gathered_;   // [tokens of some tiles, 4 * width]
  View inner_;      // [as many, text width]
  View projected_;  // [as many, text width]
};

}  // namespace saccade
