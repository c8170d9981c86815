// The sampling members that chat and completion requests share: vLLM's names, defaults and ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/requests/fields/structured_output.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

// Absent members stay empty, so that a checkpoint's generation_config can stand in before vLLM's
// default does.
struct SamplingFields {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t>
      max_tokens;  // max_completion_tokens wins over max_tokens; absent: up to the context
  std::string_view max_tokens_name = "max_tokens";  // the member that said it, for errors
  std::int64_t min_tokens = 0;
  std::int64_t n = 1;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::vector<std::int64_t> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  std::vector<std::pair<std::int64_t, double>> logit_bias;
  std::vector<std::string> bad_words;
  std::vector<std::int64_t> allowed_token_ids;  // empty: all
  std::vector<std::int64_t> logprob_token_ids;  // listed in place of the likeliest; none twice
  // How many of the prompt are kept; -1: as many as leave room for the answer.
  std::optional<std::int64_t> truncate_prompt_tokens;
  bool truncate_right = false;  // truncation_side: the prompt's end goes, not its begin
  // Most likely tokens listed beside each one of the prompt; -1: all there are.
  std::optional<std::int64_t> prompt_logprobs;
  std::optional<StructuredOutput> structured;  // absent: free text
  bool beam_search = false;                    // n, or best_of, is its width
  double length_penalty = 1;                   // of beams
};

// Members of a request that steer the answer's form and the queue.
struct DeliveryFields {
  bool stream = false;
  bool include_usage = false;           // stream_options
  bool continuous_usage_stats = false;  // stream_options
  bool metrics = false;  // Saccade's extension: per-request times in the final chunk or body
  bool return_token_ids = false;
  bool return_prompt_text = false;
  bool include_reasoning = true;  // false: thoughts are left out of the answer
  bool tokens_as_ids = false;     // return_tokens_as_token_ids: logprobs name tokens "token_id:42"
  std::int64_t priority = 0;
  std::string cache_salt;
  std::string request_id;
  std::optional<std::int64_t> ttft_slo_ms;  // Saccade's extension: its own target
};

class Fields;

// Take the shared members out of a request object. Errors name the member, its value and its range.
// least_tokens: of max_tokens.
Result<SamplingFields> take_sampling(Fields& fields, std::int64_t least_tokens = 1);
Result<DeliveryFields> take_delivery(Fields& fields);
// A member with one stop string or a list of them.
Result<std::vector<std::string>> take_stops(Fields& fields, std::string_view name);
// Of them priority, cache_salt and ttft_slo_ms, which other APIs take too.
Result<void> take_queue_fields(Fields& fields, DeliveryFields& into);
Result<std::string> take_request_id(Fields& fields);  // empty when absent
// prompts x n: kInvalid with the number and the limit before anything is made for them.
Result<void> check_choices(std::size_t prompts, std::int64_t n, std::int64_t max_waiting);
// prompt_logprobs, of requests whose answers have a place for them: kInvalid in a stream.
Result<void> take_prompt_logprobs(Fields& fields, bool stream, SamplingFields& into);
// logprob_token_ids, of requests that ask for log-probabilities.
Result<void> take_logprob_tokens(Fields& fields, bool logprobs, SamplingFields& into);
// use_beam_search and length_penalty. Of what was taken before, kInvalid names what a search would
// not follow and what would change its answer.
Result<void> take_beam_search(Fields& fields, SamplingFields& into);
// Of all other requests, where 0 asks for something too.
Result<void> refuse_prompt_logprobs(Fields& fields);
// choices x prompt tokens x entries: kInvalid with both numbers before anything is computed.
Result<void> check_prompt_logprobs(std::int64_t choices, std::size_t prompt_tokens,
                                   std::int64_t listed);
// More answers made than given, of requests that have one way to ask: best_of above 1.
Result<void> refuse_best_of(Fields& fields);
// What says how thoughts are sent: in a stream, and apart from the answer (SGLang's names).
Result<void> take_reasoning_form(Fields& fields, DeliveryFields& into);

}  // namespace saccade::api
