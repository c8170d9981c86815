// A parsed API request becomes a complete engine Request: media loaded, template rendered, text
// tokenised, placeholders expanded. Blocks; runs on a worker.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/requests/chat_request.h"
#include "api/requests/completion_request.h"
#include "base/clock.h"
#include "engine/request.h"
#include "model/prompts/processor.h"
#include "serve/media/media_loader.h"
#include "serve/requests/structured_outputs.h"
#include "serve/requests/tool_reading.h"
#include "serve/settings.h"
#include "text/templates/chat_template.h"
#include "text/templates/content_format.h"
#include "text/templates/system_messages.h"

namespace saccade::serve {

// Sampling defaults that a checkpoint brings (generation_config.json) or the operator gives; empty
// where neither says anything.
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  // max_new_tokens: of the checkpoint, the length of answers whose request names none; of the
  // operator, the most that any may have.
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> max_new_tokens;
};
// Those of the folder's generation_config.json, none without a folder, with `overrides` laid over
// them. Errors name the file or the flag, and the member.
Result<SamplingDefaults> load_sampling_defaults(const NamedFiles& files,
                                                const json::object& overrides = {});

struct BuiltPrompt {
  Prompt prompt;
  std::vector<RequestImage> images;
  std::vector<std::int64_t> image_tokens;         // of each image
  std::vector<std::int64_t> video_tokens;         // of each video
  std::string text;                               // as rendered; empty for token prompts
  tools::ParserForm reading;                      // of the answer
  std::optional<api::StructuredOutput> demanded;  // calls that the answer must be
};

// Whose a request is, and how far it had come when its prompt was built.
struct RequestOrigin {
  std::uint64_t client = 0;
  std::shared_ptr<const LoraAdapter> adapter;  // null: the model as it is
  RequestTimes times;
};

// Any thread; const after construction.
class RequestBuilder {
 public:
  RequestBuilder(const ServeSettings& settings, const Processor& processor,
                 std::shared_ptr<const Tokenizer> tokenizer,
                 std::optional<LoadedChatTemplate> chat_template, SamplingDefaults defaults,
                 const Clock& clock);

  // The checkpoint's template, parsed, and how it has tools. Call once before any chat().
  Result<void> compile_template();

  const MediaLoader& media() const { return media_; }
  // As MediaLoader::load; stamps media_done and preprocessed, and looks at `cancelled` while text
  // is tokenised, too. A text of more tokens than `max_prompt_tokens` is kInvalid with both
  // numbers, as soon as that is certain.
  Result<BuiltPrompt> chat(const api::ChatRequest& request, MediaOrigin origin,
                           std::int64_t max_prompt_tokens) const;
  // Of `request` the sampling's truncate_prompt_tokens counts; images are not cut.
  Result<BuiltPrompt> completion(const api::CompletionPrompt& prompt,
                                 const api::CompletionRequest& request,
                                 std::int64_t max_prompt_tokens,
                                 const std::atomic<bool>& cancelled) const;

  const ToolReading& tool_reading() const { return tool_reading_; }
  const std::optional<LoadedChatTemplate>& loaded_template() const { return loaded_template_; }

  // All but max_tokens, which depends on a prompt: made once for all prompts of a request. Compiles
  // the grammar that the answer is to be held to.
  Result<SamplingParams> sampling(const api::SamplingFields& fields,
                                  std::optional<std::int64_t> logprobs,
                                  std::optional<std::int64_t> prompt_logprobs) const;
  // The request's, or `standard`, or the checkpoint's, or as many as there is room for; not more
  // than that, and than the operator's bound. kInvalid with both numbers when the prompt cannot
  // fit, or the answer without one.
  Result<std::int64_t> max_tokens(const api::SamplingFields& fields, std::int64_t prompt_tokens,
                                  std::int64_t max_model_len,
                                  std::optional<std::int64_t> standard) const;

  // All of it, but for `progress`. `sampling`: with max_tokens.
  Request request(const RequestOrigin& origin, const api::DeliveryFields& delivery,
                  BuiltPrompt built, SamplingParams sampling) const;

  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }

 private:
  // -1 is as many as there are tokens; kInvalid beyond --max-logprobs.
  Result<int> listed(std::string_view member, std::int64_t logprobs) const;
  Result<void> cut(BuiltPrompt& built, std::int64_t keep, std::int64_t first) const;
  // The prompt, and how its answer is read.
  Result<void> render(const api::ChatRequest& request, BuiltPrompt& into) const;
  // The request's own template, if it has one and may.
  Result<std::optional<ChatTemplate>> template_of(const api::ChatRequest& request) const;

  const ServeSettings& settings_;
  const Processor& processor_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<LoadedChatTemplate> loaded_template_;
  std::optional<ChatTemplate> template_;
  ContentFormat format_;  // of template_
  SystemMessages instructions_;
  ToolReading tool_reading_;  // of template_
  SamplingDefaults defaults_;
  StructuredOutputs structured_;
  const Clock& clock_;
  MediaLoader media_;
};

}  // namespace saccade::serve
