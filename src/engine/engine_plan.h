// What an engine's settings come to before anything of it is made: counts that fit each other, the
// longest sequence, the largest image. A simulated machine is planned by the same.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/engine_settings.h"
#include "engine/images/encoder_queue.h"
#include "engine/request.h"
#include "memory/kv_allocator.h"
#include "model/model_shape.h"

namespace saccade {

struct EnginePlan {
  EngineSettings settings;  // as resolved
  KvSettings cache;         // complete, once `pool_bytes` are known
  EncoderLimits encoder;    // of a model with a tower
};

// Rows of a page of embeddings.
inline constexpr std::int64_t kEmbeddingPageRows = 16;

// Bytes of a row of embeddings.
std::int64_t embedding_row_bytes(const ModelShape& shape);

// What max_model_len is when nothing is said.
std::int64_t usual_length(const ModelShape& shape);

// All that does not hang on the cache's size. Clamps with a notice what is merely too large; errors
// name the setting and both numbers. `cache.pool_bytes` is what the settings say, 0 where they
// leave it open.
Result<EnginePlan> plan_engine(const EngineSettings& settings);

// What hangs on it: `kv` is that of `plan.cache`.
Result<void> plan_lengths(EnginePlan& plan, const ModelShape& shape, const KvAllocator& kv);

// How large an image may be: what the checkpoint allows, as far as a request and the encoder cache
// hold it. max_model_len is known.
Result<void> plan_images(EnginePlan& plan, const ModelShape& shape);

// Images that are attended to stay in the KV cache beside the text, up to the answer's last token:
// kTooLarge where they could not even alone. `settings`: as resolved.
Result<void> check_cross_images_fit(const Request& request, const EngineSettings& settings,
                                    const KvAllocator& kv);

}  // namespace saccade
