// What becomes of every member that clients of OpenAI, Anthropic, vLLM, SGLang and llama-server put
// into a request: one table, which the parsers follow.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace saccade::api {

// Kinds of requests; a row of the table holds for several.
enum class RequestKind : std::uint16_t {
  kChat = 1,
  kCompletion = 2,
  kResponse = 4,
  kMessages = 8,  // also /v1/messages/count_tokens
  kEmbedding = 16,
  kScore = 32,
  kRerank = 64,
  kTokenize = 128,
  kDetokenize = 256,
  kPooling = 512,
};

enum class Fate {
  kUsed,      // read by the parser
  kTemplate,  // shown to the chat template
  kRefused,   // kInvalid with its name, where it asks for something
  kIgnored,   // taken: it cannot change an answer
};

struct FieldRow {
  std::string_view name;
  Fate fate;
  std::uint16_t kinds;         // RequestKinds
  std::string_view note = {};  // of what is refused, what to do instead; else why
};

std::span<const FieldRow> field_table();
// Null: nobody has heard of it.
const FieldRow* field_row(RequestKind kind, std::string_view name);
// "chat", "completions", ...: in messages.
std::string_view name_of(RequestKind kind);

}  // namespace saccade::api
