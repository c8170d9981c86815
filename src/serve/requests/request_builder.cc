#include "serve/requests/request_builder.h"

#include <algorithm>
#include <utility>

#include "api/pages/limits.h"
#include "base/log.h"
#include "serve/requests/limited_tokenizer.h"
#include "serve/requests/textual_arguments.h"
#include "text/templates/final_message.h"

namespace saccade::serve {
namespace {

tl::unexpected<Error> too_long(std::int64_t max_model_len, std::int64_t prompt_tokens) {
  return fail(ErrorCode::kInvalid,
              "This model's maximum context length is {} tokens. However, your request has {} "
              "input tokens. Please "
              "reduce the length of the input messages.",
              max_model_len, prompt_tokens);
}

// How many of a prompt's tokens truncate_prompt_tokens keeps; 0: nothing is cut.
Result<std::int64_t> kept_tokens(const api::SamplingFields& fields, std::int64_t most) {
  if (!fields.truncate_prompt_tokens) return 0;
  const std::int64_t keep = *fields.truncate_prompt_tokens;
  if (keep > most)
    return fail(
        Error{ErrorCode::kInvalid,
              fmt::format("'truncate_prompt_tokens' is {}, the model takes {} tokens", keep, most),
              "truncate_prompt_tokens"});
  if (keep > 0) return keep;
  return std::max<std::int64_t>(1, most - fields.max_tokens.value_or(1));
}

// What a text may have before it is cut: it has to be tokenised whole.
constexpr auto kMaxBeforeCut = static_cast<std::int64_t>(api::limits::kTokenIds.most);

std::vector<TokenBias> biases_of(const api::SamplingFields& fields) {
  std::vector<TokenBias> biases;
  for (const auto& [id, bias] : fields.logit_bias)
    biases.emplace_back(static_cast<TokenId>(id), static_cast<float>(bias));
  return biases;
}

std::vector<std::uint32_t> bits_of(const std::vector<std::int64_t>& ids, std::int64_t vocab) {
  if (ids.empty()) return {};
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(vocab + 31) / 32);
  for (const std::int64_t id : ids)
    bits[static_cast<std::size_t>(id) / 32] |= 1u << static_cast<unsigned>(id % 32);
  return bits;
}

// A word as it begins a text, and as it stands within one where that is another token in its first
// place alone (vLLM's rule).
std::vector<std::vector<TokenId>> ids_of_words(const std::vector<std::string>& words,
                                               const Tokenizer& tokenizer) {
  std::vector<std::vector<TokenId>> all;
  for (const std::string& word : words) {
    const std::size_t begin = word.find_first_not_of(" \t\r\n");
    const std::string bare = begin == std::string::npos ? word : word.substr(begin);
    std::vector<TokenId> first = tokenizer.encode(bare, {.add_special_tokens = false});
    std::vector<TokenId> within = tokenizer.encode(" " + bare, {.add_special_tokens = false});
    const bool other = !first.empty() && within.size() == first.size() && within[0] != first[0];
    if (!first.empty()) all.push_back(std::move(first));
    if (other) all.push_back(std::move(within));
  }
  return all;
}

// `max_tokens`: where max_new_tokens goes.
Result<void> read_sampling_defaults(const json::object& config, SamplingDefaults& defaults,
                                    std::optional<std::int64_t>& max_tokens) {
  const auto read = [&](std::string_view name, auto& into) -> Result<void> {
    if (json::find(config, name) == nullptr) return {};
    TRY(const double number, json::get_double(config, name));
    into = static_cast<typename std::remove_reference_t<decltype(into)>::value_type>(number);
    return {};
  };
  TRY_DO(read("temperature", defaults.temperature));
  TRY_DO(read("top_p", defaults.top_p));
  TRY_DO(read("top_k", defaults.top_k));
  TRY_DO(read("min_p", defaults.min_p));
  TRY_DO(read("repetition_penalty", defaults.repetition_penalty));
  if (json::find(config, "max_new_tokens") == nullptr) return {};
  TRY(max_tokens, json::get_int(config, "max_new_tokens"));
  if (*max_tokens < 1)
    return fail(ErrorCode::kInvalid, "max_new_tokens is {}, 1 or more is required", *max_tokens);
  return {};
}

}  // namespace

Result<SamplingDefaults> load_sampling_defaults(const NamedFiles& files,
                                                const json::object& overrides) {
  SamplingDefaults defaults;
  constexpr std::string_view kName = "generation_config.json";
  if (files.has(kName)) {
    const std::string path = files.path(kName);
    TRY(const json::value tree, files.parse(kName));
    if (!tree.is_object()) return fail(ErrorCode::kInvalid, "{}: an object is required", path);
    auto read = read_sampling_defaults(tree.get_object(), defaults, defaults.max_tokens);
    if (!read) return fail_within(path, std::move(read).error());
  }
  auto read = read_sampling_defaults(overrides, defaults, defaults.max_new_tokens);
  if (!read) return fail_within("--override-generation-config", std::move(read).error());
  return defaults;
}

RequestBuilder::RequestBuilder(const ServeSettings& settings, const Processor& processor,
                               std::shared_ptr<const Tokenizer> tokenizer,
                               std::optional<LoadedChatTemplate> chat_template,
                               SamplingDefaults defaults, const Clock& clock)
    : settings_(settings),
      processor_(processor),
      tokenizer_(std::move(tokenizer)),
      loaded_template_(std::move(chat_template)),
      defaults_(defaults),
      structured_(tokenizer_, processor.shape().vocab, processor.shape().eos, settings.blanks),
      clock_(clock),
      media_(settings, processor, clock) {}

Result<void> RequestBuilder::compile_template() {
  if (!loaded_template_) return {};
  TRY(template_, ChatTemplate::parse(loaded_template_->source));
  TRY(format_, ContentFormat::of(*template_, loaded_template_->variables));
  instructions_ = SystemMessages::of(*template_, format_, loaded_template_->variables);
  TRY(tool_reading_, ToolReading::of(settings_, loaded_template_->source, *template_, format_,
                                     loaded_template_->variables));
  for (const std::string_view role : {"system", "user", "assistant", "tool"}) {
    if (format_.forms(role).drops_text())
      log::warning(
          "the chat template leaves out the text of messages of role '{}': requests with one are "
          "refused",
          role);
  }
  return {};
}

Result<std::optional<ChatTemplate>> RequestBuilder::template_of(
    const api::ChatRequest& request) const {
  std::optional<ChatTemplate> own;
  if (request.chat_template && !settings_.trust_request_chat_template) {
    return fail(Error{
        ErrorCode::kInvalid,
        "chat_template is given with the request, and --trust-request-chat-template is not set",
        "chat_template"});
  }
  if (request.chat_template) {
    TRY(own, ChatTemplate::parse(*request.chat_template));
  } else if (!template_) {
    return fail(ErrorCode::kInvalid,
                "this model has no chat template: use /v1/completions, or start the server with "
                "--chat-template");
  }
  return own;
}

Result<void> RequestBuilder::render(const api::ChatRequest& request, BuiltPrompt& into) const {
  TRY(const std::optional<ChatTemplate> own, template_of(request));
  ContentFormat format = format_;
  SystemMessages instructions = instructions_;
  ToolReading reading = tool_reading_;
  if (own) {
    TRY(format, ContentFormat::of(*own, request.chat_template_kwargs));
    instructions = SystemMessages::of(*own, format, request.chat_template_kwargs);
    TRY(reading, ToolReading::of(settings_, *request.chat_template, *own, format,
                                 request.chat_template_kwargs));
  }
  TRY_DO(reading.check(request.tools));
  TRY(into.demanded, reading.demand(request.tools));
  const auto guard = [this](std::string_view text) { return processor_.guard_literals(text); };
  json::array messages = api::template_messages(request, guard);
  const json::array tools = api::template_tools(request, guard);
  ChatTemplateOptions options;
  if (!tools.empty() && (settings_.tools_without_choice || request.tools.may_be_called()))
    options.tools = &tools;
  const auto placeholder = [this](std::string_view type, int image) {
    return type == "video" ? processor_.video_placeholder() : processor_.image_placeholder(image);
  };
  std::optional<FinalMessage> continued;
  if (request.continue_final_message) {
    TRY(continued, FinalMessage::mark(messages));
  }
  const auto textual = TextualArguments::in(messages);
  instructions.arrange(messages);
  TRY_DO(format.arrange(messages, placeholder, options.tools != nullptr));
  options.add_generation_prompt = request.add_generation_prompt && !request.continue_final_message;
  if (request.documents) options.documents = &*request.documents;
  if (loaded_template_) options.variables = loaded_template_->variables;
  for (const json::object* each : {&settings_.chat_template_kwargs, &request.chat_template_kwargs})
    for (const auto& member : *each) options.variables[member.key()] = member.value();
  options.now_unix_seconds = wall_clock_now() / kSecond;
  const auto rendered = [&](const json::array& shown) {
    return (own ? *own : *template_).render(shown, options);
  };
  auto text = rendered(messages);
  if (textual) text = textual->shown(std::move(text), messages, rendered);
  TRY(into.text, std::move(text));
  TRY_DO(format.check(messages, into.text, rendered));
  if (continued) {
    TRY(into.text, continued->cut(std::move(into.text)));
  }
  into.reading = reading.form(request.tools, into.text);
  return {};
}

Result<BuiltPrompt> RequestBuilder::chat(const api::ChatRequest& request, MediaOrigin origin,
                                         std::int64_t max_prompt_tokens) const {
  const std::atomic<bool>& cancelled = origin.cancelled;
  RequestTimes& times = origin.times;
  TRY(LoadedMedia media, media_.load(request, std::move(origin)));
  BuiltPrompt built;
  TRY_DO(render(request, built));
  TRY(const std::int64_t keep, kept_tokens(request.sampling, max_prompt_tokens));
  const LimitedTokenizer tokenizer(*tokenizer_, keep > 0 ? kMaxBeforeCut : max_prompt_tokens,
                                   &cancelled);
  auto prompt =
      processor_.build_prompt(tokenizer, built.text, media.layouts, request.add_special_tokens);
  TRY_DO(tokenizer.check());
  TRY(built.prompt, std::move(prompt));
  if (keep > 0) TRY_DO(cut(built, keep, request.sampling.truncate_right ? keep : 0));
  for (const ImageLayout& layout : media.layouts)
    (layout.frames > 0 ? built.video_tokens : built.image_tokens).push_back(layout.tokens);
  // By number, as spans name them; a prompt may place a later image first.
  built.images = std::move(media.inputs);
  for (const ImageSpan& span : built.prompt.images)
    built.images[static_cast<std::size_t>(span.index)].span = span;
  times.preprocessed = clock_.now();
  return built;
}

// To `keep` tokens: the prompt's `first` ones, and its last ones for the rest.
Result<void> RequestBuilder::cut(BuiltPrompt& built, std::int64_t keep, std::int64_t first) const {
  std::vector<TokenId> ids = built.prompt.ids;
  const auto count = static_cast<std::int64_t>(ids.size());
  if (count <= keep) return {};
  if (!built.prompt.images.empty())
    return fail(Error{ErrorCode::kInvalid,
                      fmt::format("'truncate_prompt_tokens' keeps {} tokens of a prompt with {} "
                                  "images and {} tokens: images are not cut",
                                  keep, built.prompt.images.size(), count),
                      "truncate_prompt_tokens"});
  const std::int64_t head = std::min(first, keep);
  ids.erase(ids.begin() + head, ids.begin() + (count - (keep - head)));
  built.text = tokenizer_->decode(ids, true);
  TRY(built.prompt, processor_.wrap_tokens(std::move(ids)));
  return {};
}

Result<BuiltPrompt> RequestBuilder::completion(const api::CompletionPrompt& prompt,
                                               const api::CompletionRequest& request,
                                               std::int64_t max_prompt_tokens,
                                               const std::atomic<bool>& cancelled) const {
  TRY(const std::int64_t keep, kept_tokens(request.sampling, max_prompt_tokens));
  const std::int64_t most = keep > 0 ? kMaxBeforeCut : max_prompt_tokens;
  BuiltPrompt built;
  std::int64_t first = 0;
  if (!prompt.is_tokens) {
    built.text = prompt.text;
    const LimitedTokenizer tokenizer(*tokenizer_, most, &cancelled);
    auto made = processor_.build_prompt(tokenizer, processor_.guard_literals(prompt.text), {},
                                        request.add_special_tokens);
    TRY_DO(tokenizer.check());
    TRY(built.prompt, std::move(made));
    if (keep > 0 && request.add_special_tokens)
      first =
          static_cast<std::int64_t>(tokenizer_->encode("", {.add_special_tokens = true}).size());
  } else {
    const auto count = static_cast<std::int64_t>(prompt.tokens.size());
    if (count > most) return too_long(most, count);
    std::vector<TokenId> ids;
    ids.reserve(prompt.tokens.size());
    for (const std::int64_t id : prompt.tokens) {
      if (id < 0 || id >= processor_.shape().vocab) {
        return fail(Error{ErrorCode::kInvalid,
                          fmt::format("token id {} is outside the vocabulary of {}", id,
                                      processor_.shape().vocab),
                          "prompt"});
      }
      ids.push_back(static_cast<TokenId>(id));
    }
    TRY(built.prompt, processor_.wrap_tokens(std::move(ids)));
  }
  if (built.prompt.ids.empty()) {
    return fail(Error{ErrorCode::kInvalid, "the prompt is empty: at least one token is required",
                      "prompt"});
  }
  if (keep > 0) TRY_DO(cut(built, keep, request.sampling.truncate_right ? keep : first));
  return built;
}

Result<std::int64_t> RequestBuilder::max_tokens(const api::SamplingFields& fields,
                                                std::int64_t prompt_tokens,
                                                std::int64_t max_model_len,
                                                std::optional<std::int64_t> standard) const {
  if (prompt_tokens >= max_model_len) return too_long(max_model_len, prompt_tokens);
  const std::int64_t room = max_model_len - prompt_tokens;
  // Clients name the most that they can use, not what a long prompt leaves.
  if (fields.max_tokens && *fields.max_tokens > max_model_len) {
    return fail(
        Error{ErrorCode::kInvalid,
              fmt::format("'{}' is too large: {}. This model's maximum context length is {} "
                          "tokens.",
                          fields.max_tokens_name, *fields.max_tokens, max_model_len),
              std::string(fields.max_tokens_name)});
  }
  const std::int64_t asked =
      fields.max_tokens.value_or(standard.value_or(defaults_.max_tokens.value_or(room)));
  return std::min({asked, defaults_.max_new_tokens.value_or(room), room});
}

Request RequestBuilder::request(const RequestOrigin& origin, const api::DeliveryFields& delivery,
                                BuiltPrompt built, SamplingParams sampling) const {
  Request made;
  made.prompt = std::move(built.prompt);
  made.images = std::move(built.images);
  made.sampling = std::move(sampling);
  made.priority = delivery.priority;
  made.client = origin.client;
  made.cache_salt = delivery.cache_salt;
  made.adapter = origin.adapter;
  made.times = origin.times;
  made.tokenizer = tokenizer_;
  return made;
}

Result<int> RequestBuilder::listed(std::string_view member, std::int64_t logprobs) const {
  const std::int64_t wanted = logprobs < 0 ? processor_.shape().vocab : logprobs;
  if (wanted <= settings_.engine.max_logprobs) return static_cast<int>(wanted);
  return fail(
      Error{ErrorCode::kInvalid,
            fmt::format("{} log-probabilities are asked for, the limit is {} (--max-logprobs)",
                        wanted, settings_.engine.max_logprobs),
            std::string(member)});
}

Result<SamplingParams> RequestBuilder::sampling(const api::SamplingFields& fields,
                                                std::optional<std::int64_t> logprobs,
                                                std::optional<std::int64_t> prompt_logprobs) const {
  SamplingParams params;
  if (logprobs) {
    TRY(params.logprobs, listed("logprobs", *logprobs));
  }
  const std::vector<std::int64_t>& named = fields.logprob_token_ids;
  if (logprobs && !named.empty()) {
    TRY_DO(listed("logprob_token_ids", static_cast<std::int64_t>(named.size())));
    params.logprobs = 0;  // these in place of the likeliest
  }
  if (prompt_logprobs) {
    TRY(params.prompt_logprobs, listed("prompt_logprobs", *prompt_logprobs));
  }
  params.temperature = fields.temperature.value_or(defaults_.temperature.value_or(1.0));
  params.top_p = fields.top_p.value_or(defaults_.top_p.value_or(1.0));
  params.top_k = fields.top_k.value_or(defaults_.top_k.value_or(0));
  params.min_p = fields.min_p.value_or(defaults_.min_p.value_or(0.0));
  params.repetition_penalty =
      fields.repetition_penalty.value_or(defaults_.repetition_penalty.value_or(1.0));
  params.presence_penalty = fields.presence_penalty;
  params.frequency_penalty = fields.frequency_penalty;
  if (fields.seed) params.seed = static_cast<std::uint64_t>(*fields.seed);
  params.min_tokens = fields.min_tokens;
  if (fields.structured) {
    TRY(params.grammar, structured_.find(*fields.structured));
  }
  params.ignore_eos = fields.ignore_eos;
  params.stop = fields.stop;
  params.include_stop_str_in_output = fields.include_stop_str_in_output;
  params.skip_special_tokens = fields.skip_special_tokens;
  const std::int64_t vocab = processor_.shape().vocab;
  std::vector<TokenId> stops;
  for (const std::int64_t id : fields.stop_token_ids) {
    if (id >= 0 && id < vocab) stops.push_back(static_cast<TokenId>(id));
  }
  params.stop_token_ids = std::move(stops);
  const auto check = [vocab](std::string_view member, std::int64_t id) -> Result<void> {
    if (id >= 0 && id < vocab) return {};
    return fail(Error{ErrorCode::kInvalid,
                      fmt::format("{} names token {}, the vocabulary has {}", member, id, vocab),
                      std::string(member)});
  };
  for (const auto& [id, bias] : fields.logit_bias) TRY_DO(check("logit_bias", id));
  for (const std::int64_t id : fields.allowed_token_ids) TRY_DO(check("allowed_token_ids", id));
  for (const std::int64_t id : named) TRY_DO(check("logprob_token_ids", id));
  params.logprob_token_ids = std::vector<TokenId>(named.begin(), named.end());
  params.logit_bias = biases_of(fields);
  params.allowed_tokens = bits_of(fields.allowed_token_ids, vocab);
  params.bad_words = ids_of_words(fields.bad_words, *tokenizer_);
  return params;
}

}  // namespace saccade::serve
