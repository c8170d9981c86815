// POST /v1/completions as a plain struct.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/requests/fields/prompt_field.h"
#include "api/requests/fields/sampling_fields.h"
#include "base/result.h"

namespace saccade::api {

struct CompletionRequest {
  std::string model;
  std::vector<CompletionPrompt> prompts;  // all four forms: string, [string], [int], [[int]]
  SamplingFields sampling;                // max_tokens defaults to 16 here
  DeliveryFields delivery;
  std::optional<std::int64_t> logprobs;
  std::int64_t best_of = 1;  // choices made of a prompt, or beams; the n likeliest are given
  bool echo = false;
  bool add_special_tokens = true;
  std::vector<std::string> unknown;

  // With echo: the answer is the prompt.
  bool prompt_alone() const { return sampling.max_tokens == 0; }
  // Entries listed beside each of the prompt's tokens: asked for, or because the prompt is echoed
  // with log-probabilities.
  std::optional<std::int64_t> prompt_logprobs() const {
    return !sampling.prompt_logprobs && echo ? logprobs : sampling.prompt_logprobs;
  }
};

Result<CompletionRequest> parse_completion_request(std::string_view body);

}  // namespace saccade::api
