// What an engine is made of. Run once at start.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "engine/drafting/draft_model.h"
#include "engine/engine_plan.h"
#include "engine/step/batch_builder.h"
#include "engine/step/sampling_lane.h"

namespace saccade {

struct EngineParts : EnginePlan {
  std::vector<std::int64_t> graph_rows;  // ascending; empty: no step is padded
  std::unique_ptr<KvAllocator> kv;
  std::unique_ptr<KvPool> pool;
  std::optional<EmbeddingArena> arena;  // with images, unless they are overlaid
  std::optional<BatchBuilder> batches;
  std::optional<SamplingLane> sampling;
  std::optional<SamplingLane> scoring;  // of the prompts' own tokens
  std::unique_ptr<DraftModel> draft;    // null: no draft model

  // Rows that give a token in one step.
  std::int64_t sampled_rows() const { return settings.max_sequences + settings.draft_rows(); }
  // Rows whose logits are made at once: of all that give a token, or a slice of those of prompts
  // that are scored.
  std::int64_t logit_rows() const {
    constexpr std::int64_t kLeastSlice = 16;
    return std::max(sampled_rows(), kLeastSlice);
  }
  // The embedding store's capacity: nothing where rows lie in the KV pages, or without images.
  std::int64_t store_bytes() const {
    return arena ? static_cast<std::int64_t>(settings.encoder_cache_bytes) : 0;
  }
};

// Chooses what was left open, clamps with a notice what is merely too small, and refuses with the
// setting's name and both numbers what cannot hold (engine_plan.h). Reserves the model's scratch.
Result<EngineParts> set_up_engine(const EngineSettings& settings, Network& network, Device& device,
                                  const Clock& clock);

}  // namespace saccade
