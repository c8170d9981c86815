#include "engine/engine_plan.h"

#include <algorithm>
#include <string_view>

#include "base/log.h"
#include "engine/admission/prompt_layout.h"

namespace saccade {
namespace {

// A stage of several images takes no more of the latency target, so that it fits beside decode.
constexpr double kStageShareOfTarget = 0.25;

Result<void> check_counts(EngineSettings& settings) {
  const auto positive = [](std::int64_t value, std::string_view name) -> Result<void> {
    if (value >= 1) return {};
    return fail(ErrorCode::kInvalid, "{} is {}, at least 1 is needed", name, value);
  };
  TRY_DO(positive(settings.max_batched_tokens, "max_num_batched_tokens"));
  TRY_DO(positive(settings.max_sequences, "max_num_seqs"));
  TRY_DO(positive(settings.block_size, "block_size"));
  TRY_DO(positive(settings.max_waiting, "max_waiting"));
  TRY_DO(positive(settings.state_interval, "mamba_block_size"));
  if (settings.max_logprobs < 0) {
    return fail(ErrorCode::kInvalid, "max_logprobs is {}, at least 0 is needed",
                settings.max_logprobs);
  }
  if (settings.steps_in_flight < 0 || settings.steps_in_flight > 2) {
    return fail(ErrorCode::kInvalid, "steps_in_flight is {}, 1 or 2 is needed, or 0 for either",
                settings.steps_in_flight);
  }
  if (!(settings.device_memory_utilization > 0 && settings.device_memory_utilization <= 1)) {
    return fail(ErrorCode::kInvalid, "gpu_memory_utilization is {}, above 0 up to 1 is possible",
                settings.device_memory_utilization);
  }
  if (settings.max_model_len < 0 || settings.long_prefill_threshold < 0 ||
      settings.tpot_target_ms < 0) {
    return fail(ErrorCode::kInvalid,
                "max_model_len {}, long_prefill_token_threshold {}, tpot_target_ms {}: none may be "
                "negative",
                settings.max_model_len, settings.long_prefill_threshold, settings.tpot_target_ms);
  }
  if (!(settings.decode_share >= 0 && settings.decode_share < 1))
    return fail(ErrorCode::kInvalid, "decode_share is {}, 0 up to below 1 is possible",
                settings.decode_share);
  if (settings.max_loras < 0 || settings.max_lora_rank < 1) {
    return fail(ErrorCode::kInvalid, "max_loras {}, max_lora_rank {}: at least 0 and 1 are needed",
                settings.max_loras, settings.max_lora_rank);
  }
  if (settings.max_sequences > settings.max_batched_tokens) {
    log::warning("max_num_seqs {} is over the step's {} tokens: {} run at once",
                 settings.max_sequences, settings.max_batched_tokens, settings.max_batched_tokens);
    settings.max_sequences = settings.max_batched_tokens;
  }
  return {};
}

Result<void> choose_length(EngineSettings& settings, const ModelShape& shape,
                           const KvAllocator& kv) {
  const std::int64_t held = kv.longest_sequence(settings.max_batched_tokens, shape.max_position);
  if (settings.max_model_len > shape.max_position) {
    return fail(ErrorCode::kInvalid, "max_model_len {} is over the checkpoint's {} positions",
                settings.max_model_len, shape.max_position);
  }
  if (settings.max_model_len > held) {
    return fail(ErrorCode::kTooLarge,
                "max_model_len {} is over the {} tokens that a KV cache of {} bytes holds of one "
                "request",
                settings.max_model_len, held, kv.settings().pool_bytes);
  }
  if (held < 2) {
    return fail(ErrorCode::kTooLarge, "a KV cache of {} bytes holds {} tokens of one request",
                kv.settings().pool_bytes, held);
  }
  if (settings.max_model_len > 0) return {};
  const std::int64_t usual = usual_length(shape);
  settings.max_model_len = std::min(usual, held);
  if (held < usual) {
    log::warning("max_model_len is {}: the KV cache holds no more of the checkpoint's {}", held,
                 usual);
  }
  return {};
}

// In whole blocks; without a cache of prefixes no state is kept.
std::int64_t state_interval_of(const EngineSettings& settings) {
  if (!settings.prefix_caching) return 0;
  return (settings.state_interval + settings.block_size - 1) / settings.block_size *
         settings.block_size;
}

// No more run at once than the pool has pages for the first token of.
void limit_sequences(EngineSettings& settings, const KvAllocator& kv) {
  const PagePlan& plan = kv.plan();
  double large_pages = 0;
  for (const GroupPlan& group : plan.groups) {
    const std::int64_t tokens = group.stream == TokenStream::kEncoder ? 0 : 1;
    const std::int64_t blocks = make_layer_policy(group)->peak_blocks(tokens, 1, {});
    large_pages += static_cast<double>(blocks * group.tables) / static_cast<double>(group.ratio);
  }
  const auto held = static_cast<double>(kv.settings().pool_bytes / plan.large_bytes);
  if (large_pages * static_cast<double>(settings.max_sequences) <= held) return;
  const auto most = std::max<std::int64_t>(1, static_cast<std::int64_t>(held / large_pages));
  log::warning(
      "max_num_seqs {}: a KV cache of {} bytes holds a first block of {}, so {} run at once",
      settings.max_sequences, kv.settings().pool_bytes, most, most);
  settings.max_sequences = most;
}

}  // namespace

std::int64_t embedding_row_bytes(const ModelShape& shape) {
  return shape.embedding_width() * static_cast<std::int64_t>(size_of(shape.embedding_dtype));
}

std::int64_t usual_length(const ModelShape& shape) {
  return shape.usual_length > 0 ? shape.usual_length : shape.max_position;
}

Result<EnginePlan> plan_engine(const EngineSettings& settings) {
  EnginePlan plan;
  plan.settings = settings;
  TRY_DO(check_counts(plan.settings));

  plan.cache.plan.policy = settings.kv_policy;
  plan.cache.plan.block_tokens = settings.block_size;
  plan.cache.plan.state_interval = state_interval_of(settings);
  plan.cache.plan.max_sequences = plan.settings.max_sequences;
  plan.cache.prefix_caching = settings.prefix_caching;
  plan.cache.observer = settings.cache_observer;
  plan.cache.pool_bytes = static_cast<std::int64_t>(settings.kv_cache_bytes);
  return plan;
}

Result<void> plan_lengths(EnginePlan& plan, const ModelShape& shape, const KvAllocator& kv) {
  plan.settings.kv_cache_bytes = static_cast<std::size_t>(kv.settings().pool_bytes);
  TRY_DO(choose_length(plan.settings, shape, kv));
  limit_sequences(plan.settings, kv);
  return {};
}

Result<void> plan_images(EnginePlan& plan, const ModelShape& shape) {
  const EngineSettings& settings = plan.settings;
  const std::int64_t row_bytes = embedding_row_bytes(shape);
  const std::int64_t max_rows = shape.max_image_tokens;
  // Rows that are attended to across take no places of the text.
  std::int64_t rows = shape.cross_attends() ? max_rows : std::min(max_rows, settings.max_model_len);
  if (settings.encoder_cache != EncoderCache::kOverlay) {
    const std::int64_t page_bytes = kEmbeddingPageRows * row_bytes;
    const std::int64_t held =
        static_cast<std::int64_t>(settings.encoder_cache_bytes) / page_bytes * kEmbeddingPageRows;
    if (held == 0) {
      return fail(ErrorCode::kTooLarge, "encoder_cache_bytes {} hold no {} rows of {} bytes",
                  settings.encoder_cache_bytes, kEmbeddingPageRows, row_bytes);
    }
    if (held < rows) {
      log::warning("images are limited to {} tokens: encoder_cache_bytes {} hold no more of {}",
                   held, settings.encoder_cache_bytes, rows);
    }
    rows = std::min(rows, held);
  }
  plan.encoder.max_rows = rows;
  // In proportion, rounded up: no more scratch than the rows that are left can ask for.
  plan.encoder.max_patches =
      max_rows == 0 ? 0 : (shape.max_image_patches * rows + max_rows - 1) / max_rows;
  plan.encoder.batch_patches = settings.encoder_batch_patches;
  plan.encoder.stage_seconds = settings.tpot_target_ms / 1e3 * kStageShareOfTarget;
  plan.encoder.piece_seconds = EncoderLimits().piece_seconds;
  if (plan.encoder.stage_seconds > 0)
    plan.encoder.piece_seconds = std::min(plan.encoder.piece_seconds, plan.encoder.stage_seconds);
  return {};
}

Result<void> check_cross_images_fit(const Request& request, const EngineSettings& settings,
                                    const KvAllocator& kv) {
  std::vector<std::int64_t> rows;
  for (const RequestImage& image : *request.images) rows.push_back(image.layout.tokens);
  const std::int64_t block = kv.plan().block_tokens;
  KvShape shape;
  shape.encoder_tokens = stream_length(lay_out_cross_images(*request.prompt, rows, block), block);
  if (shape.encoder_tokens == 0) return {};
  shape.prompt_tokens = static_cast<std::int64_t>(request.prompt->ids.size());
  const std::int64_t length =
      std::min(shape.prompt_tokens + request.sampling.max_tokens, settings.max_model_len);
  if (kv.fits(shape, length, settings.max_batched_tokens)) return {};
  return fail(
      ErrorCode::kTooLarge,
      "{} rows of images and {} tokens of text and answer do not fit a KV cache of {} bytes",
      shape.encoder_tokens, length, kv.settings().pool_bytes);
}

}  // namespace saccade
