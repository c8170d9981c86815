// Request bodies as pieces that share their images: encoded before the run, sent by scatter/gather.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/datasets/prompt.h"

namespace saccade::bench {

enum class Endpoint { kChat, kCompletions };

// Fields of the body besides the prompt. Unset ones are not sent.
struct BodySettings {
  Endpoint endpoint = Endpoint::kChat;
  std::string model = {};
  // Adapters that requests name instead, each by itself: drawn by the seed, or one after another.
  std::vector<std::string> lora_modules = {};
  bool lora_in_turn = false;
  std::uint64_t lora_seed = 0;
  bool stream = true;
  bool include_usage = true;            // stream_options, when streamed
  bool continuous_usage_stats = false;  // stream_options: usage in every event
  bool ignore_eos = false;
  std::string max_tokens_key = "max_completion_tokens";  // or "max_tokens"; completions: the latter
  std::optional<double> temperature = {};
  std::optional<double> top_p = {};
  std::optional<std::int64_t> top_k = {};
  std::optional<double> min_p = {};
  std::optional<double> frequency_penalty = {};
  std::optional<double> presence_penalty = {};
  std::optional<double> repetition_penalty = {};
  std::optional<std::int64_t> logprobs = {};
  json::object extra = {};    // sent last; replaces a field of the same name
  bool always_parts = false;  // content as an array of parts even when it is text alone
};

// The pieces of one body, in order.
using BodyPieces = std::vector<net::SharedBytes>;
std::uint64_t size_of(const BodyPieces& body);

// What request `index` names as its model.
const std::string& model_of(const BodySettings& settings, std::size_t index);

// `history` goes before the prompt's own messages. `index`: of the request, or the conversation.
BodyPieces encode_body(const BodySettings& settings, std::span<const ChatMessage> history,
                       const Prompt& prompt, std::size_t index = 0);
inline BodyPieces encode_body(const BodySettings& settings, const Prompt& prompt,
                              std::size_t index = 0) {
  return encode_body(settings, {}, prompt, index);
}

// Joined, for tests and for messages.
std::string join(const BodyPieces& body);

// The prompt as the log keeps it: hashes and sizes, and the text when asked.
PromptRecord describe(const Prompt& prompt, bool keep_text);

// Hex SHA-256 over the records' content hashes, in order, each ended by LF.
std::string dataset_hash(std::span<const PromptRecord> prompts);

}  // namespace saccade::bench
