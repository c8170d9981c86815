#include "engine/engine_setup.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "base/log.h"

namespace saccade {
namespace {

constexpr std::int64_t kEmbeddingPageRows = 16;
constexpr double kShareOfFreeMemory = 0.5;  // for the KV pool, when nothing is said
// A stage of several images takes no more of the latency target, so that it fits beside decode.
constexpr double kStageShareOfTarget = 0.25;
constexpr std::int64_t kLeastFreeMemory = std::int64_t{1} << 30;  // assumed when it cannot be told

double gibibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

Result<void> check_counts(EngineSettings& settings) {
  const auto positive = [](std::int64_t value, std::string_view name) -> Result<void> {
    if (value >= 1) return {};
    return fail(ErrorCode::kInvalid, "{} is {}, at least 1 is needed", name, value);
  };
  TRY_DO(positive(settings.max_batched_tokens, "max_num_batched_tokens"));
  TRY_DO(positive(settings.max_sequences, "max_num_seqs"));
  TRY_DO(positive(settings.block_size, "block_size"));
  TRY_DO(positive(settings.max_waiting, "max_waiting"));
  if (settings.max_logprobs < 0) {
    return fail(ErrorCode::kInvalid, "max_logprobs is {}, at least 0 is needed",
                settings.max_logprobs);
  }
  if (settings.steps_in_flight < 1 || settings.steps_in_flight > 2) {
    return fail(ErrorCode::kInvalid, "steps_in_flight is {}, 1 or 2 is needed",
                settings.steps_in_flight);
  }
  if (settings.max_model_len < 0 || settings.long_prefill_threshold < 0 ||
      settings.tpot_target_ms < 0) {
    return fail(ErrorCode::kInvalid,
                "max_model_len {}, long_prefill_token_threshold {}, tpot_target_ms {}: none may be "
                "negative",
                settings.max_model_len, settings.long_prefill_threshold, settings.tpot_target_ms);
  }
  if (settings.max_sequences > settings.max_batched_tokens) {
    log::warning("max_num_seqs {} is over the step's {} tokens: {} run at once",
                 settings.max_sequences, settings.max_batched_tokens, settings.max_batched_tokens);
    settings.max_sequences = settings.max_batched_tokens;
  }
  return {};
}

// What max_model_len is when nothing is said.
std::int64_t usual_length(const ModelShape& shape) {
  return shape.usual_length > 0 ? shape.usual_length : shape.max_position;
}

// Bytes that hold max_sequences of the longest sequence: more would never be used.
Result<std::int64_t> most_useful_bytes(const EngineSettings& settings, const ModelShape& shape,
                                       const PagePlanSettings& plan_settings) {
  TRY(const PagePlan plan, make_page_plan(layer_specs(shape), plan_settings));
  const std::int64_t length = settings.max_model_len > 0
                                  ? std::min(settings.max_model_len, shape.max_position)
                                  : usual_length(shape);
  std::int64_t large_pages = 0;
  for (const GroupPlan& group : plan.groups) {
    const std::int64_t blocks =
        make_layer_policy(group)->peak_blocks(length, settings.max_batched_tokens, {});
    large_pages += (blocks * group.tables + group.ratio - 1) / group.ratio;
  }
  return (large_pages + 1) * settings.max_sequences * plan.large_bytes;
}

// `free`: bytes of the device that nothing else will take.
Result<std::int64_t> choose_kv_bytes(const EngineSettings& settings, const ModelShape& shape,
                                     const PagePlanSettings& plan, std::int64_t free) {
  if (settings.kv_cache_bytes > 0) return static_cast<std::int64_t>(settings.kv_cache_bytes);
  TRY(const std::int64_t useful, most_useful_bytes(settings, shape, plan));
  const auto share = static_cast<std::int64_t>(kShareOfFreeMemory * static_cast<double>(free));
  const std::int64_t chosen = std::min(share, useful);
  log::info("KV cache: {:.2f} GiB of the {:.2f} GiB that are free (kv_cache_bytes sets it)",
            gibibytes(chosen), gibibytes(free));
  return chosen;
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

// No more run at once than the pool has pages for the first token of.
void limit_sequences(EngineSettings& settings, const KvAllocator& kv) {
  const PagePlan& plan = kv.plan();
  double large_pages = 0;
  for (const GroupPlan& group : plan.groups) {
    const std::int64_t blocks = make_layer_policy(group)->peak_blocks(1, 1, {});
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

// How large an image may be: what the checkpoint allows, as far as a request and the encoder cache
// hold it.
Result<void> choose_image_limits(EngineParts& parts, const ModelShape& shape) {
  EngineSettings& settings = parts.settings;
  const std::int64_t row_bytes =
      shape.embedding_width() * static_cast<std::int64_t>(size_of(shape.kv_dtype));
  const std::int64_t most_rows = shape.max_image_tokens;
  std::int64_t rows = std::min(most_rows, settings.max_model_len);
  if (parts.encoder_cache != EncoderCache::kOverlay) {
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
  parts.encoder.max_rows = rows;
  // In proportion, rounded up: no more scratch than the rows that are left can ask for.
  parts.encoder.max_patches =
      most_rows == 0 ? 0 : (shape.max_image_patches * rows + most_rows - 1) / most_rows;
  parts.encoder.batch_patches = settings.encoder_batch_patches;
  parts.encoder.stage_seconds = settings.tpot_target_ms / 1e3 * kStageShareOfTarget;
  parts.embedding_page_rows = kEmbeddingPageRows;
  return {};
}

Capacity capacity_of(const EngineParts& parts) {
  Capacity capacity;
  capacity.rows = parts.settings.max_batched_tokens;
  capacity.sequences = parts.settings.max_sequences;
  capacity.logit_rows = parts.logit_rows();
  capacity.image_patches = parts.encoder.max_patches;
  capacity.length = parts.settings.max_model_len;
  return capacity;
}

// Bytes that are left for the KV pool when the model's scratch, the embedding store, and the rows
// and logits of a step have theirs. What the device calls free is read before any of them is made:
// memory of the host is taken when it is first written to.
Result<std::int64_t> free_beside_scratch(EngineParts parts, Network& network, Device& device) {
  const ModelShape& shape = network.shape();
  const std::int64_t free = std::max(kLeastFreeMemory, device.free_bytes());
  if (parts.settings.max_model_len == 0) parts.settings.max_model_len = usual_length(shape);
  std::int64_t taken = parts.logit_rows() * shape.vocab * std::int64_t{sizeof(float)};
  if (shape.has_vision) {
    TRY_DO(choose_image_limits(parts, shape));
    const std::int64_t row_bytes =
        shape.embedding_width() * static_cast<std::int64_t>(size_of(shape.kv_dtype));
    taken += parts.encoder.max_rows * row_bytes;
    taken += parts.encoder_cache == EncoderCache::kOverlay
                 ? parts.settings.max_batched_tokens * row_bytes
                 : static_cast<std::int64_t>(parts.settings.encoder_cache_bytes);
  }
  TRY_DO(network.reserve(device, capacity_of(parts)));
  taken += static_cast<std::int64_t>(network.scratch_bytes());
  return std::max(free - taken, kLeastFreeMemory / 16);
}

}  // namespace

Result<EngineParts> set_up_engine(const EngineSettings& settings, Network& network,
                                  Device& device) {
  EngineParts parts;
  parts.settings = settings;
  const ModelShape& shape = network.shape();
  TRY_DO(check_counts(parts.settings));
  TRY(const KvPolicy kv_policy, parse_kv_policy(settings.kv_policy));
  TRY(parts.encoder_cache, parse_encoder_cache(settings.encoder_cache));
  TRY(parts.scheduler.policy, parse_scheduling_policy(settings.scheduling_policy));
  if (settings.fairness != "client" && settings.fairness != "none")
    return fail(ErrorCode::kInvalid, "fairness \"{}\" is none of client, none", settings.fairness);

  KvSettings kv;
  kv.plan.policy = kv_policy;
  kv.plan.block_tokens = parts.settings.block_size;
  kv.plan.max_sequences = parts.settings.max_sequences;
  kv.max_sequences = parts.settings.max_sequences;
  kv.prefix_caching = settings.prefix_caching;
  kv.observer = settings.cache_observer;
  std::int64_t free = 0;
  if (settings.kv_cache_bytes == 0) {
    EngineParts sketch;
    sketch.settings = parts.settings;
    sketch.encoder_cache = parts.encoder_cache;
    TRY(free, free_beside_scratch(std::move(sketch), network, device));
  }
  TRY(kv.pool_bytes, choose_kv_bytes(parts.settings, shape, kv.plan, free));
  TRY(parts.kv, KvAllocator::create(layer_specs(shape), kv));
  parts.settings.kv_cache_bytes = static_cast<std::size_t>(kv.pool_bytes);
  TRY_DO(choose_length(parts.settings, shape, *parts.kv));
  limit_sequences(parts.settings, *parts.kv);
  TRY(parts.pool, KvPool::create(device, shape, parts.kv->plan(), kv.pool_bytes));
  std::istringstream plan(parts.kv->plan().describe());
  for (std::string line; std::getline(plan, line);) log::info("KV cache, {}", line);

  if (shape.has_vision) {
    TRY_DO(choose_image_limits(parts, shape));
    if (parts.encoder_cache == EncoderCache::kOverlay) {
      if (!parts.pool->holds_embeddings()) {
        return fail(ErrorCode::kUnsupported,
                    "encoder_cache overlay: keys and values of the full-attention layers are "
                    "smaller than an embedding of {} elements",
                    shape.embedding_width());
      }
    } else {
      TRY(parts.arena, EmbeddingArena::create(
                           device, static_cast<std::int64_t>(parts.settings.encoder_cache_bytes),
                           kEmbeddingPageRows, shape.embedding_width(), shape.kv_dtype));
    }
  }

  parts.scheduler.max_batched_tokens = parts.settings.max_batched_tokens;
  parts.scheduler.max_sequences = parts.settings.max_sequences;
  parts.scheduler.long_prefill_threshold = settings.long_prefill_threshold;
  parts.scheduler.priority_aging = settings.priority_aging;
  parts.scheduler.fair = settings.fairness == "client";
  parts.scheduler.most_draft_rows = parts.draft_rows();

  TRY_DO(network.reserve(device, capacity_of(parts)));
  TRY(parts.sampling,
      SamplingLane::create(device, parts.sampled_rows(), parts.settings.max_logprobs,
                           parts.settings.steps_in_flight));
  TRY(parts.scoring,
      SamplingLane::create(device, parts.logit_rows(), parts.settings.max_logprobs, 1));
  TRY(parts.batches,
      BatchBuilder::create(device, shape, parts.kv->plan().tables,
                           parts.settings.max_batched_tokens, parts.logit_rows(),
                           shape.has_vision && parts.encoder_cache == EncoderCache::kOverlay));
  return parts;
}

}  // namespace saccade
