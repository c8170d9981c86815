#include "api/requests/fields/field_table.h"

#include <algorithm>

#include "api/requests/fields/table_names.h"

namespace saccade::api {
namespace {

using namespace table_names;

constexpr std::uint16_t kPooling = static_cast<std::uint16_t>(RequestKind::kPooling);
constexpr std::uint16_t kEmbedding = static_cast<std::uint16_t>(RequestKind::kEmbedding) | kPooling;
constexpr std::uint16_t kScore = static_cast<std::uint16_t>(RequestKind::kScore);
constexpr std::uint16_t kRerank = static_cast<std::uint16_t>(RequestKind::kRerank);
constexpr std::uint16_t kTokenize = static_cast<std::uint16_t>(RequestKind::kTokenize);
constexpr std::uint16_t kDetokenize = static_cast<std::uint16_t>(RequestKind::kDetokenize);
constexpr std::uint16_t kTalk = kChat | kResponse | kMessages;  // with a chat template
constexpr std::uint16_t kAnswers = kTalk | kCompletion;         // that tokens are sampled for
constexpr std::uint16_t kVectors = kEmbedding | kScore | kRerank;

// One row a member and fate.
constexpr FieldRow kRows[] = {
    // What is asked.
    {"model", kUsed, kAnswers | kVectors | kTokenize | kDetokenize},
    {"messages", kUsed, kChat | kMessages | kTokenize},
    {"messages", kRefused, kResponse, "send 'input'"},
    {"messages", kRefused, kEmbedding},
    {"prompt", kUsed, kCompletion | kTokenize},
    {"prompt", kRefused, kResponse, "send 'instructions' and 'input'"},
    {"input", kUsed, kResponse | kEmbedding},
    {"task", kUsed, kPooling},
    {"data", kRefused, kPooling, "send 'input'"},
    {"instructions", kUsed, kResponse},
    {"previous_response_id", kUsed, kResponse},
    {"previous_response", kRefused, kResponse, "go on from 'previous_response_id'"},
    {"previous_input_messages", kRefused, kResponse, "go on from 'previous_response_id'"},
    {"conversation", kRefused, kResponse, "go on from 'previous_response_id'"},
    {"system", kUsed, kMessages},
    {"content", kUsed, kTokenize},
    {"add_special", kUsed, kTokenize},
    {"parse_special", kUsed, kTokenize},
    {"with_pieces", kRefused, kTokenize, "send 'return_token_strs'"},
    {"tokens", kUsed, kDetokenize},
    {"text_1", kUsed, kScore},
    {"queries", kUsed, kScore},
    {"data_1", kUsed, kScore},
    {"text_2", kUsed, kScore},
    {"items", kUsed, kScore},
    {"data_2", kUsed, kScore},
    {"query", kUsed, kRerank},
    {"documents", kUsed, kScore | kRerank},
    {"documents", kTemplate, kTalk},
    {"top_n", kUsed, kRerank},
    {"return_documents", kUsed, kRerank},
    {"texts", kUsed, kRerank},
    {"return_text", kUsed, kRerank},
    {"rank_fields", kRefused, kRerank},
    {"max_chunks_per_doc", kRefused, kRerank},
    {"max_tokens_per_query", kRefused, kScore | kRerank, "send 'truncate_prompt_tokens'"},
    {"max_tokens_per_doc", kRefused, kScore | kRerank,
     "send 'truncate_prompt_tokens', which cuts the query too"},
    {"image", kRefused, kResponse},
    {"suffix", kRefused, kCompletion},
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
    {"max_tokens", kUsed, kChat | kCompletion | kMessages},
    {"max_tokens", kRefused, kResponse, "send 'max_output_tokens'"},
    {"max_completion_tokens", kUsed, kChat | kCompletion},
    {"max_completion_tokens", kRefused, kResponse, "send 'max_output_tokens'"},
    {"max_completion_tokens", kRefused, kMessages, "send 'max_tokens'"},
    {"max_output_tokens", kUsed, kResponse},
    {"min_tokens", kUsed, kAnswers},
    {"ignore_eos", kUsed, kAnswers},
    {"stop", kUsed, kChat | kCompletion | kResponse},
    {"stop", kRefused, kMessages, "send 'stop_sequences'"},
    {"stop_sequences", kUsed, kMessages},
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
    {"use_beam_search", kUsed, kChat | kCompletion},
    {"use_beam_search", kRefused, kResponse | kMessages},
    {"length_penalty", kUsed, kChat | kCompletion},
    {"early_stopping", kIgnored, kAnswers, "a search of beams ends as vLLM's does"},
    {"logits_processors", kRefused, kAnswers},
    {"repetition_detection", kRefused, kAnswers},
    {"watermarking", kRefused, kAnswers},

    // The answer's form.
    {"response_format", kUsed, kChat | kCompletion},
    {"response_format", kRefused, kResponse, "send 'text.format'"},
    {"response_format", kRefused, kMessages, "send 'output_config.format'"},
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
    {"text", kUsed, kResponse},
    {"output_config", kUsed, kMessages},
    {"output_format", kUsed, kMessages},
    {"logprobs", kUsed, kChat | kCompletion},
    {"logprobs", kRefused, kResponse, "send \"message.output_text.logprobs\" in 'include'"},
    {"logprobs", kRefused, kMessages, "/v1/chat/completions has them"},
    {"top_logprobs", kUsed, kChat | kResponse},
    {"top_logprobs", kRefused, kMessages, "/v1/chat/completions has them"},
    {"prompt_logprobs", kUsed, kChat | kCompletion},
    {"prompt_logprobs", kRefused, kResponse | kMessages},
    {"logprob_token_ids", kUsed, kChat | kCompletion},
    {"logprob_token_ids", kRefused, kResponse | kMessages, "/v1/chat/completions has them"},
    {"include", kUsed, kResponse},
    {"echo", kUsed, kChat | kCompletion},
    {"audio", kRefused, kChat},
    {"modalities", kUsed, kTalk},
    {"prediction", kRefused, kChat},
    {"moderation", kRefused, kChat | kResponse, "this server moderates nothing"},
    {"encoding_format", kUsed, kEmbedding},
    {"dimensions", kUsed, kEmbedding},
    {"normalize", kUsed, kEmbedding},
    {"embed_dtype", kRefused, kEmbedding},
    {"endianness", kRefused, kEmbedding},
    {"padding", kUsed, kEmbedding},
    {"padding", kRefused, kScore | kRerank, "texts are not padded"},
    {"use_activation", kUsed, kEmbedding},
    {"use_activation", kIgnored, kScore | kRerank, "a score is a cosine"},
    {"activation", kIgnored, kScore | kRerank, "a score is a cosine"},
    {"softmax", kIgnored, kScore | kRerank, "a score is a cosine"},
    {"instruction", kRefused, kScore | kRerank},
    {"return_token_strs", kUsed, kTokenize},

    // Tools and thoughts.
    {"tools", kUsed, kTalk | kTokenize},
    {"tool_choice", kUsed, kTalk},
    {"parallel_tool_calls", kUsed, kChat | kResponse},
    {"parallel_tool_calls", kRefused, kMessages, "send 'tool_choice.disable_parallel_tool_use'"},
    {"functions", kRefused, kChat, "it is the older form of 'tools', which is"},
    {"function_call", kRefused, kChat, "it is the older form of 'tool_choice', which is"},
    {"max_tool_calls", kRefused, kResponse,
     "no tool runs on this server; 'parallel_tool_calls' bounds functions"},
    {"web_search_options", kRefused, kChat},
    {"container", kRefused, kMessages, "no code runs on this server"},
    {"mcp_servers", kRefused, kMessages, "no tool runs on this server"},
    {"thinking", kTemplate, kMessages, "as enable_thinking"},
    {"thinking_token_budget", kRefused, kAnswers},
    {"reasoning", kTemplate, kResponse, "its effort, as reasoning_effort"},
    {"reasoning_effort", kTemplate, kChat},
    {"reasoning_effort", kRefused, kResponse, "send 'reasoning.effort'"},
    {"reasoning_effort", kRefused, kMessages, "send 'output_config.effort'"},
    {"reasoning_effort", kIgnored, kCompletion, "there is no template"},
    {"verbosity", kTemplate, kChat},
    {"verbosity", kRefused, kResponse, "send 'text.verbosity'"},
    {"verbosity", kIgnored, kCompletion, "there is no template"},
    {"separate_reasoning", kUsed, kAnswers},
    {"stream_reasoning", kUsed, kAnswers},
    {"include_reasoning", kUsed, kAnswers},

    // How the prompt is made.
    {"add_generation_prompt", kUsed, kChat | kResponse | kTokenize},
    {"add_generation_prompt", kRefused, kMessages,
     "end 'messages' with the assistant's to have it continued"},
    {"add_generation_prompt", kRefused, kEmbedding, "it is of messages; send 'input'"},
    {"continue_final_message", kRefused, kEmbedding, "it is of messages; send 'input'"},
    {"continue_final_message", kUsed, kChat | kTokenize},
    {"continue_final_message", kRefused, kResponse, "/v1/chat/completions has it"},
    {"continue_final_message", kRefused, kMessages, "end 'messages' with the assistant's"},
    {"add_special_tokens", kUsed, kAnswers | kEmbedding | kTokenize},
    {"chat_template", kUsed, kTalk | kTokenize},
    {"chat_template", kRefused, kVectors},
    {"chat_template_kwargs", kTemplate, kTalk | kTokenize},
    {"chat_template_kwargs", kRefused, kVectors},
    {"mm_processor_kwargs", kUsed, kTalk | kTokenize},
    {"mm_processor_kwargs", kRefused, kVectors},
    {"media_io_kwargs", kUsed, kTalk | kTokenize},
    {"media_io_kwargs", kRefused, kVectors},
    {"min_pixels", kUsed, kTalk},
    {"max_pixels", kUsed, kTalk},
    {"truncation", kUsed, kResponse},
    {"context_management", kRefused, kResponse, "leave out of 'input' what is too old"},
    {"context_management", kRefused, kMessages, "leave out of 'messages' what is too old"},
    {"compaction", kRefused, kMessages, "leave out of 'messages' what is too old"},
    {"thread", kRefused, kMessages, "send 'messages'"},

    // How the answer comes.
    {"stream", kUsed, kAnswers},
    {"stream_options", kUsed, kChat | kCompletion | kResponse},
    {"stream_interval", kIgnored, kAnswers, "pieces come as they are made"},
    {"background", kRefused, kResponse, "ask with 'stream' instead"},
    {"background_options", kRefused, kResponse, "ask with 'stream' instead"},
    {"store", kUsed, kResponse},
    {"store", kIgnored, kChat | kCompletion | kMessages, "nothing is kept"},
    {"metadata", kUsed, kResponse | kMessages},
    {"metadata", kIgnored, kChat | kCompletion, "nothing is kept"},
    {"user", kUsed, kResponse},
    {"user", kIgnored, kChat | kCompletion | kMessages | kVectors,
     "users are told apart by their keys"},
    {"metrics", kUsed, kChat | kCompletion},
    {"return_token_ids", kUsed, kChat | kCompletion},
    {"return_tokens_as_token_ids", kUsed, kChat | kCompletion},
    {"return_prompt_text", kUsed, kChat},
    {"return_prompt_text", kIgnored, kCompletion | kResponse | kMessages,
     "/tokenize shows a prompt"},
    {"return_token_offsets", kIgnored, kAnswers, "of vLLM's render endpoints alone"},
    {"return_mm_kwargs", kIgnored, kAnswers, "of vLLM's render endpoints alone"},
    {"mm_payload", kIgnored, kAnswers, "of vLLM's render endpoints alone"},
    {"return_hidden_states", kRefused, kAnswers},
    {"routed_experts_prompt_start", kRefused, kAnswers},
    {"enable_response_messages", kRefused, kResponse},
    {"request_id", kUsed, kChat | kCompletion | kVectors},
    {"request_id", kRefused, kResponse, "ids of responses are the server's own"},
    {"request_id", kRefused, kMessages, "ids of messages are the server's own"},
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
    {"cache_control", kIgnored, kMessages, "what is cached is cached without being asked"},
    {"inference_geo", kIgnored, kMessages, "the server is where it is"},
    {"speed", kIgnored, kMessages, "there is one"},
    {"user_profile_id", kIgnored, kMessages, "users are told apart by their keys"},
    {"workspace_id", kIgnored, kMessages, "users are told apart by their keys"},
    {"diagnostics", kIgnored, kMessages, "there are none"},
    {"betas", kIgnored, kMessages, "a header's, there is nothing to switch on"},
    {"billing_policy", kIgnored, kMessages, "nobody pays"},
    {"fallbacks", kIgnored, kMessages, "of other models"},
    {"fallback_credit_token", kIgnored, kMessages, "nobody pays"},
    {"access_programs", kIgnored, kResponse, "nobody is let in by them"},
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
