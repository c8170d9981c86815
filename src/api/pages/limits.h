// The most that one request may bring of anything of which it may bring many: one table, which
// SECURITY.md prints. What it allows is bounded in memory whatever n is: choices share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/requests/fields/fields.h"
#include "base/result.h"

namespace saccade::api {

struct Limit {
  std::string_view field;
  std::string_view unit;
  std::size_t most;
};

namespace limits {

inline constexpr Limit kMembers{"request", "members", 1'024};
inline constexpr Limit kMessages{"messages", "entries", 16'384};
inline constexpr Limit kMessageMembers{"messages[]", "members", 64};
inline constexpr Limit kRole{"messages[].role", "bytes", 64};
inline constexpr Limit kParts{"messages[].content", "parts in all", 65'536};
inline constexpr Limit kToolCalls{"messages[].tool_calls", "calls", 1'024};
inline constexpr Limit kImages{"image_url", "images", 4'096};
inline constexpr Limit kImageName{"messages[].content[].uuid", "bytes", 256};
inline constexpr Limit kFrames{"video_url", "frames in all", 4'096};
inline constexpr Limit kPrompts{"prompt", "entries", 1'024};
inline constexpr Limit kInputs{"input", "entries", 2'048};
inline constexpr Limit kTokenIds{"token ids", "entries in all", 4'194'304};
inline constexpr Limit kChoices{"n", "choices", 128};
inline constexpr Limit kAllChoices{"prompt x n", "choices", 1'024};
inline constexpr Limit kEcho{"echo x n", "bytes of prompts in the answer", 4'194'304};
inline constexpr Limit kPromptLogprobs{"prompt_logprobs x n", "entries in the answer", 1'048'576};
inline constexpr Limit kPromptIds{"prompt_token_ids x n", "entries in the answer", 4'194'304};
inline constexpr Limit kStops{"stop", "strings", 64};
inline constexpr Limit kStopBytes{"stop[]", "bytes", 4'096};
inline constexpr Limit kStopTokenIds{"stop_token_ids", "entries", 4'096};
inline constexpr Limit kLogitBias{"logit_bias", "entries", 16'384};
inline constexpr Limit kBadWords{"bad_words", "strings", 256};
inline constexpr Limit kBadWordBytes{"bad_words[]", "bytes", 1'024};
inline constexpr Limit kAllowedTokens{"allowed_token_ids", "entries", 524'288};
inline constexpr Limit kLogprobTokens{"logprob_token_ids", "entries", 1024};
inline constexpr Limit kTools{"tools", "entries", 1'024};
inline constexpr Limit kToolBytes{"tools as JSON", "bytes", 4'194'304};
inline constexpr Limit kToolName{"tools[].function.name", "characters", 128};
inline constexpr Limit kDocuments{"documents", "entries", 4'096};
inline constexpr Limit kTemplateKwargs{"chat_template_kwargs", "members", 256};
inline constexpr Limit kProcessorKwargs{"mm_processor_kwargs", "members", 256};
inline constexpr Limit kChatTemplate{"chat_template", "bytes", 262'144};
inline constexpr Limit kEffort{"reasoning_effort", "bytes", 64};
inline constexpr Limit kRequestId{"request_id", "bytes", 256};
inline constexpr Limit kMetadata{"metadata", "members", 16};
inline constexpr Limit kMetadataBytes{"metadata[]", "bytes", 1'024};
inline constexpr Limit kCacheSalt{"cache_salt", "bytes", 1'024};

inline constexpr std::int64_t kMaxSloMs = 86'400'000;  // of a request's own target: a day
// Of `priority`, either way: milliseconds since 1970 fit, and steps are added to a thousand of it.
inline constexpr std::int64_t kMaxPriority = std::int64_t{1} << 50;

inline constexpr Limit kAll[] = {
    kMembers,      kMessages,       kMessageMembers,  kParts,        kToolCalls, kImages,
    kFrames,       kPrompts,        kInputs,          kTokenIds,     kChoices,   kAllChoices,
    kEcho,         kStops,          kStopBytes,       kStopTokenIds, kLogitBias, kBadWords,
    kBadWordBytes, kAllowedTokens,  kLogprobTokens,   kTools,        kToolBytes, kToolName,
    kDocuments,    kTemplateKwargs, kProcessorKwargs, kChatTemplate, kRequestId, kCacheSalt,
    kMetadata,     kMetadataBytes,  kEffort,          kRole,         kImageName, kPromptLogprobs,
    kPromptIds};

}  // namespace limits

// kInvalid with both numbers, naming `name`, where the limit's own field does not say enough.
inline Result<void> within(const Limit& limit, std::size_t count, std::string_view name) {
  if (count <= limit.most) return {};
  return invalid(name, "'{}' has {} {}, the limit is {}", name, count, limit.unit, limit.most);
}
inline Result<void> within(const Limit& limit, std::size_t count) {
  return within(limit, count, limit.field);
}

}  // namespace saccade::api
