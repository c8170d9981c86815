#include "api/requests/fields/field_table.h"

#include <algorithm>

#include "api/requests/fields/table_letters.h"

namespace saccade::api {
namespace {

using namespace letters;

constexpr std::uint16_t G = static_cast<std::uint16_t>(RequestKind::kPooling);
constexpr std::uint16_t E = static_cast<std::uint16_t>(RequestKind::kEmbedding) | G;
constexpr std::uint16_t S = static_cast<std::uint16_t>(RequestKind::kScore);
constexpr std::uint16_t K = static_cast<std::uint16_t>(RequestKind::kRerank);
constexpr std::uint16_t Z = static_cast<std::uint16_t>(RequestKind::kTokenize);
constexpr std::uint16_t D = static_cast<std::uint16_t>(RequestKind::kDetokenize);
constexpr std::uint16_t kTalk = C | R | M;     // with a chat template
constexpr std::uint16_t kAnswers = kTalk | T;  // that tokens are sampled for
constexpr std::uint16_t kVectors = E | S | K;

// One row a member and fate.
constexpr FieldRow kRows[] = {
    // What is asked.
    {"model", kUsed, kAnswers | kVectors | Z | D},
    {"messages", kUsed, C | M | Z},
    {"messages", kRefused, R, "send 'input'"},
    {"messages", kRefused, E},
    {"prompt", kUsed, T | Z},
    {"prompt", kRefused, R, "send 'instructions' and 'input'"},
    {"input", kUsed, R | E},
    {"task", kUsed, G},
    {"data", kRefused, G, "send 'input'"},
    {"instructions", kUsed, R},
    {"previous_response_id", kUsed, R},
    {"previous_response", kRefused, R, "go on from 'previous_response_id'"},
    {"previous_input_messages", kRefused, R, "go on from 'previous_response_id'"},
    {"conversation", kRefused, R, "go on from 'previous_response_id'"},
    {"system", kUsed, M},
    {"content", kUsed, Z},
    {"add_special", kUsed, Z},
    {"parse_special", kUsed, Z},
    {"with_pieces", kRefused, Z, "send 'return_token_strs'"},
    {"tokens", kUsed, D},
    {"text_1", kUsed, S},
    {"queries", kUsed, S},
    {"data_1", kUsed, S},
    {"text_2", kUsed, S},
    {"items", kUsed, S},
    {"data_2", kUsed, S},
    {"query", kUsed, K},
    {"documents", kUsed, S | K},
    {"documents", kTemplate, kTalk},
    {"top_n", kUsed, K},
    {"return_documents", kUsed, K},
    {"texts", kUsed, K},
    {"return_text", kUsed, K},
    {"rank_fields", kRefused, K},
    {"max_chunks_per_doc", kRefused, K},
    {"max_tokens_per_query", kRefused, S | K, "send 'truncate_prompt_tokens'"},
    {"max_tokens_per_doc", kRefused, S | K,
     "send 'truncate_prompt_tokens', which cuts the query too"},
    {"image", kRefused, R},
    {"suffix", kRefused, T},
    {"prompt_embeds", kRefused, kAnswers},

    // Sampling.
    {"temperature", kUsed, kAnswers},
    {"top_p", kUsed, kAnswers},
    {"top_k", kUsed, kAnswers},
    {"min_p", kUsed, kAnswers},
    {"repetition_penalty", kUsed, kAnswers},
    {"presence_penalty", kUsed, kAnswers},
    {"frequency_penalty", kUsed, kAnswers},
    {"seed", kUsed, kAnswers},
    {"n", kUsed, kAnswers},
    {"best_of", kUsed, kAnswers},
    {"max_tokens", kUsed, C | T | M},
    {"max_tokens", kRefused, R, "send 'max_output_tokens'"},
    {"max_completion_tokens", kUsed, C | T},
    {"max_completion_tokens", kRefused, R, "send 'max_output_tokens'"},
    {"max_completion_tokens", kRefused, M, "send 'max_tokens'"},
    {"max_output_tokens", kUsed, R},
    {"min_tokens", kUsed, kAnswers},
    {"ignore_eos", kUsed, kAnswers},
    {"stop", kUsed, C | T | R},
    {"stop", kRefused, M, "send 'stop_sequences'"},
    {"stop_sequences", kUsed, M},
    {"stop_token_ids", kUsed, kAnswers},
    {"include_stop_str_in_output", kUsed, kAnswers},
    {"no_stop_trim", kUsed, kAnswers},
    {"skip_special_tokens", kUsed, kAnswers},
    {"spaces_between_special_tokens", kIgnored, kAnswers, "tokens are text as they stand"},
    {"logit_bias", kUsed, kAnswers},
    {"bad_words", kUsed, kAnswers},
    {"allowed_token_ids", kUsed, kAnswers},
    {"truncate_prompt_tokens", kUsed, kAnswers | kVectors},
    {"truncation_side", kUsed, kAnswers | kVectors},
    {"use_beam_search", kUsed, C | T},
    {"use_beam_search", kRefused, R | M},
    {"length_penalty", kUsed, C | T},
    {"early_stopping", kIgnored, kAnswers, "a search of beams ends as vLLM's does"},
    {"logits_processors", kRefused, kAnswers},
    {"repetition_detection", kRefused, kAnswers},
    {"watermarking", kRefused, kAnswers},

    // The answer's form.
    {"response_format", kUsed, C | T},
    {"response_format", kRefused, R, "send 'text.format'"},
    {"response_format", kRefused, M, "send 'output_config.format'"},
    {"structured_outputs", kUsed, kAnswers},
    {"guided_json", kUsed, kAnswers},
    {"guided_regex", kUsed, kAnswers},
    {"guided_choice", kUsed, kAnswers},
    {"guided_grammar", kUsed, kAnswers},
    {"json_schema", kUsed, kAnswers},
    {"grammar", kUsed, kAnswers},
    {"regex", kUsed, kAnswers},
    {"ebnf", kUsed, kAnswers},
    {"guided_decoding_backend", kIgnored, kAnswers, "there is one"},
    {"guided_whitespace_pattern", kRefused, kAnswers},
    {"text", kUsed, R},
    {"output_config", kUsed, M},
    {"output_format", kUsed, M},
    {"logprobs", kUsed, C | T},
    {"logprobs", kRefused, R, "send \"message.output_text.logprobs\" in 'include'"},
    {"logprobs", kRefused, M, "/v1/chat/completions has them"},
    {"top_logprobs", kUsed, C | R},
    {"top_logprobs", kRefused, M, "/v1/chat/completions has them"},
    {"prompt_logprobs", kUsed, C | T},
    {"prompt_logprobs", kRefused, R | M},
    {"logprob_token_ids", kUsed, C | T},
    {"logprob_token_ids", kRefused, R | M, "/v1/chat/completions has them"},
    {"include", kUsed, R},
    {"echo", kUsed, C | T},
    {"audio", kRefused, C},
    {"modalities", kUsed, kTalk},
    {"prediction", kRefused, C},
    {"moderation", kRefused, C | R, "this server moderates nothing"},
    {"encoding_format", kUsed, E},
    {"dimensions", kUsed, E},
    {"normalize", kUsed, E},
    {"embed_dtype", kRefused, E},
    {"endianness", kRefused, E},
    {"padding", kUsed, E},
    {"padding", kRefused, S | K, "texts are not padded"},
    {"use_activation", kUsed, E},
    {"use_activation", kIgnored, S | K, "a score is a cosine"},
    {"activation", kIgnored, S | K, "a score is a cosine"},
    {"softmax", kIgnored, S | K, "a score is a cosine"},
    {"instruction", kRefused, S | K},
    {"return_token_strs", kUsed, Z},

    // Tools and thoughts.
    {"tools", kUsed, kTalk | Z},
    {"tool_choice", kUsed, kTalk},
    {"parallel_tool_calls", kUsed, C | R},
    {"parallel_tool_calls", kRefused, M, "send 'tool_choice.disable_parallel_tool_use'"},
    {"functions", kRefused, C, "it is the older form of 'tools', which is"},
    {"function_call", kRefused, C, "it is the older form of 'tool_choice', which is"},
    {"max_tool_calls", kRefused, R,
     "no tool runs on this server; 'parallel_tool_calls' bounds functions"},
    {"web_search_options", kRefused, C},
    {"container", kRefused, M, "no code runs on this server"},
    {"mcp_servers", kRefused, M, "no tool runs on this server"},
    {"thinking", kTemplate, M, "as enable_thinking"},
    {"thinking_token_budget", kRefused, kAnswers},
    {"reasoning", kTemplate, R, "its effort, as reasoning_effort"},
    {"reasoning_effort", kTemplate, C},
    {"reasoning_effort", kRefused, R, "send 'reasoning.effort'"},
    {"reasoning_effort", kRefused, M, "send 'output_config.effort'"},
    {"reasoning_effort", kIgnored, T, "there is no template"},
    {"verbosity", kTemplate, C},
    {"verbosity", kRefused, R, "send 'text.verbosity'"},
    {"verbosity", kIgnored, T, "there is no template"},
    {"separate_reasoning", kUsed, kAnswers},
    {"stream_reasoning", kUsed, kAnswers},
    {"include_reasoning", kUsed, kAnswers},

    // How the prompt is made.
    {"add_generation_prompt", kUsed, C | R | Z},
    {"add_generation_prompt", kRefused, M,
     "end 'messages' with the assistant's to have it continued"},
    {"add_generation_prompt", kRefused, E, "it is of messages; send 'input'"},
    {"continue_final_message", kRefused, E, "it is of messages; send 'input'"},
    {"continue_final_message", kUsed, C | Z},
    {"continue_final_message", kRefused, R, "/v1/chat/completions has it"},
    {"continue_final_message", kRefused, M, "end 'messages' with the assistant's"},
    {"add_special_tokens", kUsed, kAnswers | E | Z},
    {"chat_template", kUsed, kTalk | Z},
    {"chat_template", kRefused, kVectors},
    {"chat_template_kwargs", kTemplate, kTalk | Z},
    {"chat_template_kwargs", kRefused, kVectors},
    {"mm_processor_kwargs", kUsed, kTalk | Z},
    {"mm_processor_kwargs", kRefused, kVectors},
    {"media_io_kwargs", kUsed, kTalk | Z},
    {"media_io_kwargs", kRefused, kVectors},
    {"min_pixels", kUsed, kTalk},
    {"max_pixels", kUsed, kTalk},
    {"truncation", kUsed, R},
    {"context_management", kRefused, R, "leave out of 'input' what is too old"},
    {"context_management", kRefused, M, "leave out of 'messages' what is too old"},
    {"compaction", kRefused, M, "leave out of 'messages' what is too old"},
    {"thread", kRefused, M, "send 'messages'"},

    // How the answer comes.
    {"stream", kUsed, kAnswers},
    {"stream_options", kUsed, C | T | R},
    {"stream_interval", kIgnored, kAnswers, "pieces come as they are made"},
    {"background", kRefused, R, "ask with 'stream' instead"},
    {"background_options", kRefused, R, "ask with 'stream' instead"},
    {"store", kUsed, R},
    {"store", kIgnored, C | T | M, "nothing is kept"},
    {"metadata", kUsed, R | M},
    {"metadata", kIgnored, C | T, "nothing is kept"},
    {"user", kUsed, R},
    {"user", kIgnored, C | T | M | kVectors, "users are told apart by their keys"},
    {"metrics", kUsed, C | T},
    {"return_token_ids", kUsed, C | T},
    {"return_tokens_as_token_ids", kUsed, C | T},
    {"return_prompt_text", kUsed, C},
    {"return_prompt_text", kIgnored, T | R | M, "/tokenize shows a prompt"},
    {"return_token_offsets", kIgnored, kAnswers, "of vLLM's render endpoints alone"},
    {"return_mm_kwargs", kIgnored, kAnswers, "of vLLM's render endpoints alone"},
    {"mm_payload", kIgnored, kAnswers, "of vLLM's render endpoints alone"},
    {"return_hidden_states", kRefused, kAnswers},
    {"routed_experts_prompt_start", kRefused, kAnswers},
    {"enable_response_messages", kRefused, R},
    {"request_id", kUsed, C | T | kVectors},
    {"request_id", kRefused, R, "ids of responses are the server's own"},
    {"request_id", kRefused, M, "ids of messages are the server's own"},
    {"priority", kUsed, kAnswers},
    {"priority", kIgnored, kVectors, "texts are embedded in the order that they came in"},
    {"cache_salt", kUsed, kAnswers},
    {"cache_salt", kIgnored, kVectors, "vectors of texts are not cached"},
    {"ttft_slo_ms", kUsed, kAnswers},

    // Of services around a model: where it runs, who pays, what is cached.
    {"service_tier", kIgnored, kAnswers, "there is one"},
    {"safety_identifier", kIgnored, kAnswers, "nobody is reported"},
    {"prompt_cache_key", kIgnored, kAnswers, "what is cached is cached without being asked"},
    {"prompt_cache_retention", kIgnored, kAnswers, "what is cached is cached without being asked"},
    {"prompt_cache_options", kIgnored, kAnswers, "what is cached is cached without being asked"},
    {"cache_control", kIgnored, M, "what is cached is cached without being asked"},
    {"inference_geo", kIgnored, M, "the server is where it is"},
    {"speed", kIgnored, M, "there is one"},
    {"user_profile_id", kIgnored, M, "users are told apart by their keys"},
    {"workspace_id", kIgnored, M, "users are told apart by their keys"},
    {"diagnostics", kIgnored, M, "there are none"},
    {"betas", kIgnored, M, "a header's, there is nothing to switch on"},
    {"billing_policy", kIgnored, M, "nobody pays"},
    {"fallbacks", kIgnored, M, "of other models"},
    {"fallback_credit_token", kIgnored, M, "nobody pays"},
    {"access_programs", kIgnored, R, "nobody is let in by them"},
    {"vllm_xargs", kIgnored, kAnswers, "of vLLM's own extensions"},
    {"session_id", kIgnored, kAnswers, "sessions are told apart by their prompts"},
    {"session_params", kRefused, kAnswers},
    {"lora_path", kRefused, kAnswers, "send the adapter's name as 'model'"},
    {"kv_transfer_params", kRefused, kAnswers},
    {"ec_transfer_params", kRefused, kAnswers},
};

bool holds(const FieldRow& row, RequestKind kind) {
  return (row.kinds & static_cast<std::uint16_t>(kind)) != 0;
}

}  // namespace

std::span<const FieldRow> field_table() { return kRows; }

const FieldRow* field_row(RequestKind kind, std::string_view name) {
  const auto* found = std::ranges::find_if(
      kRows, [&](const FieldRow& row) { return row.name == name && holds(row, kind); });
  return found == std::end(kRows) ? nullptr : found;
}

std::string_view name_of(RequestKind kind) {
  switch (kind) {
    case RequestKind::kChat:
      return "chat";
    case RequestKind::kCompletion:
      return "completions";
    case RequestKind::kResponse:
      return "responses";
    case RequestKind::kMessages:
      return "messages";
    case RequestKind::kEmbedding:
      return "embeddings";
    case RequestKind::kPooling:
      return "pooling";
    case RequestKind::kScore:
      return "score";
    case RequestKind::kRerank:
      return "rerank";
    case RequestKind::kTokenize:
      return "tokenize";
    case RequestKind::kDetokenize:
      return "detokenize";
  }
  return "";
}

}  // namespace saccade::api
