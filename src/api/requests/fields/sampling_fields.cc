#include "api/requests/fields/sampling_fields.h"

#include <charconv>

#include "api/pages/limits.h"
#include "api/requests/fields/fields.h"

namespace saccade::api {
namespace {

Result<std::vector<std::int64_t>> take_ids(Fields& fields, const Limit& most) {
  std::vector<std::int64_t> ids;
  TRY(const json::array* list, fields.array(most.field));
  if (list == nullptr) return ids;
  TRY_DO(within(most, list->size()));
  for (const auto& item : *list) {
    if (!item.is_int64()) {
      return invalid(most.field, "'{}' holds {}, integers are required", most.field,
                     json::kind_name(item));
    }
    ids.push_back(item.get_int64());
  }
  return ids;
}

Result<std::vector<std::string>> take_bad_words(Fields& fields) {
  std::vector<std::string> words;
  TRY(const json::array* list, fields.array("bad_words"));
  if (list == nullptr) return words;
  TRY_DO(within(limits::kBadWords, list->size()));
  for (const auto& item : *list) {
    if (!item.is_string() || item.get_string().empty())
      return invalid("bad_words", "'bad_words' holds {}, strings are required",
                     item.is_string() ? "an empty string" : json::kind_name(item));
    TRY_DO(within(limits::kBadWordBytes, item.get_string().size()));
    words.emplace_back(item.get_string());
  }
  return words;
}

Result<std::vector<std::pair<std::int64_t, double>>> take_logit_bias(Fields& fields) {
  std::vector<std::pair<std::int64_t, double>> biases;
  TRY(const json::object* map, fields.object("logit_bias"));
  if (map == nullptr) return biases;
  TRY_DO(within(limits::kLogitBias, map->size()));
  for (const auto& member : *map) {
    const std::string_view key = member.key();
    std::int64_t id = 0;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    // Written in one way alone: "05" beside "5" would be two biases of one token.
    if (code != std::errc() || end != key.data() + key.size() || fmt::to_string(id) != key) {
      return invalid("logit_bias", "'logit_bias' has the key '{}', a token id is required",
                     key.substr(0, 40));
    }
    auto bias = json::get_double(*map, key);
    if (!bias) return invalid("logit_bias", "'logit_bias': {}", bias.error().message);
    if (!(*bias >= -100 && *bias <= 100)) {
      return invalid("logit_bias",
                     "'logit_bias' of token {} is {}, it must be between -100 and 100", id, *bias);
    }
    biases.emplace_back(id, *bias);
  }
  return biases;
}

}  // namespace

Result<std::vector<std::string>> take_stops(Fields& fields, std::string_view name) {
  std::vector<std::string> stops;
  const json::value* v = fields.take(name);
  if (v == nullptr) return stops;
  if (v->is_string()) {
    stops.emplace_back(v->get_string());
  } else if (v->is_array()) {
    TRY_DO(within(limits::kStops, v->get_array().size(), name));
    for (const auto& item : v->get_array()) {
      if (!item.is_string())
        return invalid(name, "'{}' holds {}, strings are required", name, json::kind_name(item));
      stops.emplace_back(item.get_string());
    }
  } else {
    return invalid(name, "'{}' is {}, a string or an array of strings is required", name,
                   json::kind_name(*v));
  }
  for (const auto& stop : stops) {
    if (stop.empty()) return invalid(name, "'{}' holds an empty string", name);
    if (stop.size() > limits::kStopBytes.most) {
      return invalid(name, "'{}' holds a string of {} bytes, the limit is {}", name, stop.size(),
                     limits::kStopBytes.most);
    }
  }
  return stops;
}

Result<SamplingFields> take_sampling(Fields& fields, std::int64_t least_tokens) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  SamplingFields s;
  TRY(s.temperature, fields.number("temperature", 0, kInfinity));
  TRY(s.top_p, fields.number("top_p", 0, 1));
  if (s.top_p && *s.top_p == 0)
    return invalid("top_p", "'top_p' is 0, it must be above 0 and at most 1");
  TRY(s.top_k, fields.integer("top_k", -1));
  TRY(s.min_p, fields.number("min_p", 0, 1));
  TRY(s.repetition_penalty, fields.number("repetition_penalty", 0, kInfinity));
  if (s.repetition_penalty && *s.repetition_penalty == 0) {
    return invalid("repetition_penalty", "'repetition_penalty' is 0, it must be above 0");
  }
  TRY(const auto presence, fields.number("presence_penalty", -2, 2));
  s.presence_penalty = presence.value_or(0);
  TRY(const auto frequency, fields.number("frequency_penalty", -2, 2));
  s.frequency_penalty = frequency.value_or(0);
  TRY(s.seed, fields.integer("seed"));
  TRY(const auto max_tokens, fields.integer("max_tokens", least_tokens));
  TRY(const auto max_completion_tokens, fields.integer("max_completion_tokens", least_tokens));
  s.max_tokens = max_completion_tokens ? max_completion_tokens : max_tokens;
  if (max_completion_tokens) s.max_tokens_name = "max_completion_tokens";
  TRY(const auto min_tokens, fields.integer("min_tokens", 0));
  s.min_tokens = min_tokens.value_or(0);
  if (s.max_tokens && s.min_tokens > *s.max_tokens) {
    return invalid("min_tokens", "'min_tokens' is {}, '{}' is {}: it must not be larger",
                   s.min_tokens, s.max_tokens_name, *s.max_tokens);
  }
  TRY(const auto n, fields.integer("n", 1, static_cast<std::int64_t>(limits::kChoices.most)));
  s.n = n.value_or(1);
  TRY(const auto ignore_eos, fields.boolean("ignore_eos"));
  s.ignore_eos = ignore_eos.value_or(false);
  TRY(s.stop, take_stops(fields, "stop"));
  TRY(s.stop_token_ids, take_ids(fields, limits::kStopTokenIds));
  TRY(const auto include_stop, fields.boolean("include_stop_str_in_output"));
  TRY(const auto no_trim, fields.boolean("no_stop_trim"));  // SGLang's name, which its router adds
  s.include_stop_str_in_output = include_stop.value_or(no_trim.value_or(false));
  TRY(const auto skip_special, fields.boolean("skip_special_tokens"));
  s.skip_special_tokens = skip_special.value_or(true);
  TRY(s.logit_bias, take_logit_bias(fields));
  TRY(s.bad_words, take_bad_words(fields));
  TRY(s.allowed_token_ids, take_ids(fields, limits::kAllowedTokens));
  TRY(s.truncate_prompt_tokens, fields.integer("truncate_prompt_tokens", -1,
                                               static_cast<std::int64_t>(limits::kTokenIds.most)));
  if (s.truncate_prompt_tokens && *s.truncate_prompt_tokens == 0)
    return invalid("truncate_prompt_tokens",
                   "'truncate_prompt_tokens' is 0, it must be -1 or at least 1");
  TRY(const auto side, fields.text("truncation_side"));
  if (side && *side != "left" && *side != "right")
    return invalid("truncation_side", "'truncation_side' is '{}', it must be 'left' or 'right'",
                   side->substr(0, 40));
  s.truncate_right = side && *side == "right";
  TRY(s.structured, take_structured_output(fields));
  return s;
}

Result<DeliveryFields> take_delivery(Fields& fields) {
  DeliveryFields d;
  TRY(const auto stream, fields.boolean("stream"));
  d.stream = stream.value_or(false);
  TRY(const json::object* options, fields.object("stream_options"));
  if (options != nullptr && !options->empty()) {
    if (!d.stream)
      return invalid("stream_options",
                     "'stream_options' is set and 'stream' is not: it needs a streamed answer");
    Fields inner(*options);
    TRY(const auto include_usage, inner.boolean("include_usage"));
    TRY(const auto continuous, inner.boolean("continuous_usage_stats"));
    d.include_usage = include_usage.value_or(false);
    d.continuous_usage_stats = d.include_usage && continuous.value_or(false);
  }
  TRY(const auto metrics, fields.boolean("metrics"));
  d.metrics = metrics.value_or(false);
  TRY(const auto token_ids, fields.boolean("return_token_ids"));
  d.return_token_ids = token_ids.value_or(false);
  TRY(d.request_id, take_request_id(fields));
  TRY(const auto as_ids, fields.boolean("return_tokens_as_token_ids"));
  d.tokens_as_ids = as_ids.value_or(false);
  TRY_DO(take_queue_fields(fields, d));
  return d;
}

Result<void> take_queue_fields(Fields& fields, DeliveryFields& d) {
  TRY(const auto priority, fields.integer("priority", -limits::kMaxPriority, limits::kMaxPriority));
  d.priority = priority.value_or(0);
  TRY(auto salt, fields.text("cache_salt"));
  if (salt && salt->empty())
    return invalid("cache_salt", "'cache_salt' is empty, leave it out instead");
  if (salt) TRY_DO(within(limits::kCacheSalt, salt->size()));
  d.cache_salt = std::move(salt).value_or("");
  TRY(d.ttft_slo_ms, fields.integer("ttft_slo_ms", 1, limits::kMaxSloMs));
  return {};
}

Result<std::string> take_request_id(Fields& fields) {
  TRY(auto id, fields.text("request_id"));
  if (id) TRY_DO(within(limits::kRequestId, id->size()));
  return std::move(id).value_or("");
}

Result<void> check_choices(std::size_t prompts, std::int64_t n, std::int64_t max_waiting) {
  const std::size_t choices = prompts * static_cast<std::size_t>(n);
  TRY_DO(within(limits::kAllChoices, choices));
  if (choices <= static_cast<std::size_t>(max_waiting)) return {};
  return invalid("n",
                 "{} prompts with {} choices each are {} sequences, the server lets {} wait "
                 "(--max-waiting)",
                 prompts, n, choices, max_waiting);
}

Result<void> take_prompt_logprobs(Fields& fields, bool stream, SamplingFields& into) {
  TRY(into.prompt_logprobs, fields.integer("prompt_logprobs", -1));
  if (into.prompt_logprobs && stream)
    return invalid("prompt_logprobs",
                   "'prompt_logprobs' is {} and 'stream' is true: they come with whole answers "
                   "alone",
                   *into.prompt_logprobs);
  return {};
}

Result<void> take_beam_search(Fields& fields, SamplingFields& into) {
  TRY(const auto beams, fields.boolean("use_beam_search"));
  into.beam_search = beams.value_or(false);
  TRY(const auto penalty, fields.number("length_penalty", -100, 100));
  into.length_penalty = penalty.value_or(1);
  if (!into.beam_search) return {};
  const std::pair<std::string_view, bool> given[] = {
      {"stop", !into.stop.empty()},
      {"stop_token_ids", !into.stop_token_ids.empty()},
      {"min_tokens", into.min_tokens > 0},
      {"logit_bias", !into.logit_bias.empty()},
      {"bad_words", !into.bad_words.empty()},
      {"allowed_token_ids", !into.allowed_token_ids.empty()},
      {"prompt_logprobs", into.prompt_logprobs.has_value()},
      {"logprob_token_ids", !into.logprob_token_ids.empty()},
      {"response_format", into.structured.has_value()},
      {"max_tokens", into.max_tokens == 0}};
  for (const auto& [name, is_given] : given) {
    if (is_given)
      return invalid(name, "'{}' is not supported together with 'use_beam_search'", name);
  }
  return {};
}

Result<void> take_logprob_tokens(Fields& fields, bool logprobs, SamplingFields& into) {
  TRY(const std::vector<std::int64_t> ids, take_ids(fields, limits::kLogprobTokens));
  for (const std::int64_t id : ids)
    if (std::ranges::find(into.logprob_token_ids, id) == into.logprob_token_ids.end())
      into.logprob_token_ids.push_back(id);
  if (!ids.empty() && !logprobs)
    return invalid("logprob_token_ids", "'logprob_token_ids' needs 'logprobs'");
  return {};
}

Result<void> refuse_prompt_logprobs(Fields& fields) {
  // 0 asks for the prompt's own tokens, so that only null asks for nothing.
  if (fields.take("prompt_logprobs") != nullptr)
    return invalid("prompt_logprobs",
                   "'prompt_logprobs' is not supported here: /v1/chat/completions and "
                   "/v1/completions have it");
  return {};
}

Result<void> check_prompt_logprobs(std::int64_t choices, std::size_t prompt_tokens,
                                   std::int64_t listed) {
  return within(limits::kPromptLogprobs, static_cast<std::size_t>(choices) * prompt_tokens *
                                             static_cast<std::size_t>(listed + 1));
}

Result<void> refuse_best_of(Fields& fields) {
  TRY(const auto best_of, fields.integer("best_of"));
  if (best_of && *best_of > 1)
    return invalid("best_of", "'best_of' is {}, only 1 is supported: /v1/completions has it",
                   *best_of);
  return {};
}

Result<void> take_reasoning_form(Fields& fields, DeliveryFields& into) {
  // Routers add them as true: a parser that the server has tells thoughts apart.
  for (const std::string_view name : {"separate_reasoning", "stream_reasoning"}) {
    TRY(const auto wanted, fields.boolean(name));
    if (wanted && !*wanted)
      return invalid(name, "'{}' is false, only true is supported: --reasoning-parser decides",
                     name);
  }
  TRY(const auto included, fields.boolean("include_reasoning"));
  into.include_reasoning = included.value_or(true);
  return {};
}

}  // namespace saccade::api
