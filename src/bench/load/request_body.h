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

// `history` goes before the prompt's own messages.
BodyPieces encode_body(const BodySettings& settings, std::span<const ChatMessage> history,
                       const Prompt& prompt);
inline BodyPieces encode_body(const BodySettings& settings, const Prompt& prompt) {
  return encode_body(settings, {}, prompt);
}

// Joined, for tests and for messages.
std::string join(const BodyPieces& body);

// The prompt as the log keeps it: hashes and sizes, and the text when asked.
PromptRecord describe(const Prompt& prompt, bool keep_text);

// Hex SHA-256 over the records' content hashes, in order, each ended by LF.
std::string dataset_hash(std::span<const PromptRecord> prompts);

}  // namespace saccade::bench
