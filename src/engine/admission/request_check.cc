#include "engine/admission/request_check.h"

#include <algorithm>
#include <string>

#include "model/adapters/lora_adapter.h"

namespace saccade {
namespace {

Result<void> check_adapter(const LoraAdapter& adapter, const EngineSettings& settings) {
  if (settings.max_loras == 0)
    return fail(ErrorCode::kInvalid, "adapter '{}': the engine was made for none", adapter.name());
  if (adapter.max_rank() > settings.max_lora_rank)
    return fail(ErrorCode::kInvalid, "adapter '{}' has rank {}, the engine was made for {}",
                adapter.name(), adapter.max_rank(), settings.max_lora_rank);
  return {};
}

Result<void> check_tokens(const Prompt& prompt, const RequestLimits& limits) {
  const auto length = static_cast<std::int64_t>(prompt.ids.size());
  const std::int64_t most = limits.plan.settings.max_model_len;
  if (length == 0) return fail(ErrorCode::kInvalid, "the prompt has no tokens");
  if (length + 1 > most) {
    return fail(ErrorCode::kInvalid,
                "the prompt has {} tokens, and with one token of answer the model takes {}", length,
                most);
  }
  for (const TokenId id : prompt.ids) {
    if (id < 0 || id >= limits.shape.vocab + limits.shape.placeholders) {
      return fail(ErrorCode::kInvalid, "token id {} is not in the vocabulary of {}", id,
                  limits.shape.vocab);
    }
  }
  CHECK(prompt.positions.size() == static_cast<std::size_t>(limits.shape.position_axes),
        "{} position axes, the model has {}", prompt.positions.size(), limits.shape.position_axes);
  return {};
}

Result<void> check_sampling(const Request& request, const RequestLimits& limits) {
  const SamplingParams& sampling = request.sampling;
  // What follows from a placeholder has a row of logits, and the placeholder itself has none.
  if (sampling.prompt_logprobs) {
    const std::vector<TokenId>& ids = request.prompt->ids;
    const auto placeholder = std::find_if(ids.begin() + 1, ids.end(),
                                          [&](TokenId id) { return id >= limits.shape.vocab; });
    if (placeholder != ids.end())
      return fail(ErrorCode::kUnsupported,
                  "prompt_logprobs of a prompt with an image: its token {} is none of the {} that "
                  "the model gives probabilities",
                  *placeholder, limits.shape.vocab);
  }
  const auto listed = [&](std::string_view name, std::optional<int> logprobs) -> Result<void> {
    if (logprobs.value_or(0) <= limits.plan.settings.max_logprobs) return {};
    return fail(ErrorCode::kInvalid, "{} is {}, the engine is set up for {}", name, *logprobs,
                limits.plan.settings.max_logprobs);
  };
  TRY_DO(listed("logprobs", sampling.logprobs));
  TRY_DO(listed("prompt_logprobs", sampling.prompt_logprobs));
  if (sampling.max_tokens < 1) {
    return fail(ErrorCode::kInvalid, "max_tokens is {}, at least 1 is needed", sampling.max_tokens);
  }
  return {};
}

// Decode rows of others may take all of a step but what is left here.
Result<void> check_step(const Prompt& prompt, const EngineSettings& settings) {
  const std::int64_t step = settings.max_batched_tokens - settings.max_sequences + 1;
  if (least_step_tokens(prompt) <= step) return {};
  return fail(ErrorCode::kInvalid,
              "{} tokens that attend both ways must be computed in one step, which leaves {} "
              "(max_num_batched_tokens {} less max_num_seqs {})",
              least_step_tokens(prompt), step, settings.max_batched_tokens, settings.max_sequences);
}

Result<void> check_image(const ImageLayout& image, std::size_t index, const EnginePlan& plan) {
  const std::string what = image.frames > 0 ? fmt::format("a group of {} frames", image.frames)
                                            : fmt::format("image {}", index);
  if (image.tokens > plan.encoder.max_rows) {
    return fail(ErrorCode::kTooLarge,
                "{} takes {} tokens, and the encoder is set up for {} (encoder cache {} bytes, "
                "max_model_len {})",
                what, image.tokens, plan.encoder.max_rows, plan.settings.encoder_cache_bytes,
                plan.settings.max_model_len);
  }
  if (patch_rows(image) > plan.encoder.max_patches) {
    return fail(ErrorCode::kTooLarge, "{} has {} patches, the encoder is set up for {}", what,
                patch_rows(image), plan.encoder.max_patches);
  }
  return {};
}

Result<void> check_images(const Request& request, const RequestLimits& limits) {
  if (request.images->empty()) return {};
  if (!limits.takes_images) return fail(ErrorCode::kUnsupported, "the model takes no images");
  const EnginePlan& plan = limits.plan;
  TRY_DO(check_cross_images_fit(request, plan.settings, limits.kv));
  std::int64_t together = 0;
  for (std::size_t i = 0; i < request.images->size(); ++i) {
    const ImageLayout& image = (*request.images)[i].layout;
    TRY_DO(check_image(image, i, plan));
    const std::int64_t pages = (image.tokens + kEmbeddingPageRows - 1) / kEmbeddingPageRows;
    together += pages * kEmbeddingPageRows * embedding_row_bytes(limits.shape);
  }
  const bool at_once = request.prompt->bidirectional_prefix > 0;
  const bool stored = plan.settings.encoder_cache != EncoderCache::kOverlay;
  const auto room = static_cast<std::int64_t>(plan.settings.encoder_cache_bytes);
  if (at_once && stored && together > room) {
    return fail(ErrorCode::kTooLarge,
                "the images' embeddings take {} bytes at once, the encoder cache has {}", together,
                room);
  }
  return {};
}

}  // namespace

Result<void> check_request(const Request& request, const RequestLimits& limits) {
  if (request.adapter != nullptr) TRY_DO(check_adapter(*request.adapter, limits.plan.settings));
  TRY_DO(check_tokens(*request.prompt, limits));
  TRY_DO(check_sampling(request, limits));
  TRY_DO(check_step(*request.prompt, limits.plan.settings));
  return check_images(request, limits);
}

}  // namespace saccade
