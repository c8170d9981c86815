// Plain structs to the JSON that the official clients read. Field order and shapes as vLLM's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace saccade::api {

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t image_tokens = 0;
  std::int64_t video_tokens = 0;
  // Of completion_tokens, those that were thought; empty: thoughts are not told apart.
  std::optional<std::int64_t> reasoning_tokens = std::nullopt;
};

// Nanoseconds since arrival; negative: it did not happen (left out).
struct StageTimes {
  std::vector<std::pair<std::string_view, std::int64_t>>
      stages;  // "media_done", 1234567; in order of time
};

struct TopLogprob {
  std::string token;  // bytes of the piece; written as text and as "bytes"
  std::int64_t id = 0;
  double logprob = 0;
};
struct LogprobEntry {
  std::string token;
  std::int64_t id = 0;
  double logprob = 0;
  std::vector<TopLogprob> top;
  bool echoed = false;    // of the prompt
  bool unscored = false;  // its first: nothing stands before it
};

// What stands in a prompt's place, or might: vLLM's `prompt_logprobs`.
struct PromptLogprob {
  std::int64_t id = 0;
  std::string token;  // as of LogprobEntry
  double logprob = 0;
  std::int64_t rank = 0;
};

// What identifies an answer; the same in every chunk.
struct AnswerHead {
  std::string id;            // "chatcmpl-..." or "cmpl-..."
  std::int64_t created = 0;  // Unix seconds
  std::string model;
};

// A call of a tool, or in a stream more of one: without an id it goes on where the last chunk
// ended.
struct ToolCallText {
  int index = 0;
  std::string id;
  std::string name;
  std::string arguments;
};

struct ChoiceText {
  int index = 0;
  std::string text;
  std::string reasoning;            // chat
  std::vector<ToolCallText> calls;  // chat
  std::optional<std::vector<LogprobEntry>> logprobs;
  std::string_view finish_reason;          // "", "stop", "length", "tool_calls", "abort"
  std::optional<std::string> stop_string;  // stop_reason: a string, or
  std::optional<std::int64_t> stop_token;  // a token id
  std::optional<std::vector<std::int64_t>> token_ids;
  // Of each token of the prompt itself and the likeliest in its place; of the first nothing.
  std::optional<std::vector<std::vector<PromptLogprob>>> prompt_logprobs;
  // Of its prompt, in the first piece where they are asked for; chat's stand beside the choices.
  std::shared_ptr<const std::vector<std::int32_t>> prompt_token_ids;
  std::optional<std::string> prompt_text;  // chat
  std::int64_t text_offset = 0;  // characters before this piece's tokens (completion logprobs)
};

// An array of {"token", "logprob", "bytes", "top_logprobs"}.
void write_logprobs(json::JsonWriter& w, std::span<const LogprobEntry> entries);

// Whole bodies.
std::string chat_completion(const AnswerHead& head, std::span<const ChoiceText> choices,
                            const Usage& usage, const StageTimes* times);
std::string text_completion(const AnswerHead& head, std::span<const ChoiceText> choices,
                            const Usage& usage, const StageTimes* times);

// Events of a stream, "data: ...\n\n" included. `first` adds the role to a chat delta. usage:
// continuous_usage_stats.
std::string chat_chunk(const AnswerHead& head, const ChoiceText& choice, bool first,
                       const Usage* usage);
std::string text_chunk(const AnswerHead& head, const ChoiceText& choice, const Usage* usage);
// choices: [] and usage (include_usage), with the times when asked; chat says which object name.
std::string usage_chunk(const AnswerHead& head, bool chat, const Usage& usage,
                        const StageTimes* times);
inline constexpr std::string_view kStreamEnd = "data: [DONE]\n\n";

struct ModelCard {
  std::string id;
  std::int64_t created = 0;
  std::string root;
  std::int64_t max_model_len = 0;
  bool vision = false;
  std::int64_t max_image_tokens = 0;
  bool embeds = false;  // instead of generating
  bool video = false;
  bool tools = false;
  std::string parent = {};  // of an adapter: the model that it is for; else empty
};
std::string model_list(std::span<const ModelCard> models);
std::string model_card(const ModelCard& model);

std::string tokenize_response(std::span<const std::int32_t> tokens, std::int64_t max_model_len,
                              const std::vector<std::string>* token_strs,
                              std::span<const std::int64_t> image_tokens,
                              std::span<const std::int64_t> video_tokens = {});
std::string detokenize_response(std::string_view prompt);

}  // namespace saccade::api
