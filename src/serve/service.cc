#include "serve/service.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "api/answers/best_choices.h"
#include "api/answers/messages_writer.h"
#include "api/pages/limits.h"
#include "api/requests/chat_batch.h"
#include "api/requests/fields/fields.h"
#include "api/requests/messages_request.h"
#include "api/requests/tokenize_request.h"
#include "base/log.h"
#include "serve/handlers/metrics_page.h"
#include "serve/requests/beam_run.h"
#include "serve/requests/limited_tokenizer.h"
#include "serve/requests/submission.h"
#include "serve/requests/told_prompts.h"

namespace saccade::serve {
namespace {

// Texts that are too long for the model may be counted too, up to the limit of token ids.
constexpr auto kMaxCounted = static_cast<std::int64_t>(api::limits::kTokenIds.most);

// Whether all can wait at once: a search has one place, whatever its beams.
Result<void> check_places(std::size_t prompts, std::int64_t n, bool beams, std::int64_t most) {
  if (!beams) return api::check_choices(prompts, n, most);
  TRY_DO(api::check_choices(prompts, n, std::numeric_limits<std::int64_t>::max()));
  return api::check_choices(prompts, 1, most);
}

}  // namespace

Service::Service(const ServiceParts& parts)
    : settings_(parts.settings),
      processor_(parts.processor),
      builder_(parts.builder),
      engine_(parts.engine),
      metrics_(parts.metrics),
      sizer_(parts.sizer),
      adapters_(parts.adapters),
      clock_(parts.clock),
      started_at_(wall_clock_now() / kSecond),
      downloads_(settings_.media),
      video_threads_(
          std::make_unique<WorkerPool>(settings_.video_threads, settings_.max_preparing)),
      responses_(settings_, router_),
      router_(settings_, clock_) {
  add_routes();
  metrics_.add([this](MetricsText& page) { add_cache_config(page); });
  engine_.set_after_step([this] { after_step(); });
}

// Its callbacks use the router.
Service::~Service() {
  downloads_.stop();
  stopping_ = true;
  video_threads_.reset();
}

void Service::watch(const std::shared_ptr<Answer>& answer, const Reply& reply) {
  // Weak: the answer owns the Responder, which owns this callback.
  reply.to.on_disconnect([this, weak = std::weak_ptr<Answer>(answer)] {
    if (const auto alive = weak.lock()) cancel_answer(*alive, engine_);
  });
}

Result<void> Service::submit(const std::shared_ptr<Answer>& answer,
                             const std::vector<Request>& prompts, int per_prompt) {
  Submission submission(answer, engine_, unfinished_);
  int choice = 0;
  for (const Request& prompt : prompts) {
    for (int k = 0; k < per_prompt; ++k, ++choice) {
      auto sink = [this, answer, choice](RequestId, Delta&& delta, const RequestUsage& usage,
                                         const RequestTimes& times) {
        if (answer->on_delta(choice, std::move(delta), usage, times, writes_)) --unfinished_;
      };
      Request one = prompt;
      if (one.sampling.seed) *one.sampling.seed += static_cast<std::uint64_t>(k);
      one.answers = k == 0 ? per_prompt : 0;
      one.times.queued = clock_.now();
      TRY_DO(submission.add(std::move(one), std::move(sink)));
    }
  }
  submission.complete();
  return {};
}

Result<void> Service::submit_beams(const std::shared_ptr<Answer>& answer,
                                   const std::vector<Request>& prompts,
                                   const api::SamplingFields& fields, std::int64_t width) {
  if (2 * width > engine_.settings().max_logprobs)
    return fail(Error{ErrorCode::kInvalid,
                      fmt::format("{} beams take {} log-probabilities of each token, the limit is "
                                  "{} (--max-logprobs)",
                                  width, 2 * width, engine_.settings().max_logprobs),
                      "n"});
  Submission submission(answer, engine_, unfinished_);
  const auto given = static_cast<std::size_t>(fields.n);
  std::size_t first = 0;
  for (const Request& prompt : prompts) {
    BeamSettings settings;
    settings.width = static_cast<std::size_t>(width);
    settings.max_tokens = prompt.sampling.max_tokens;
    settings.prompt_tokens = static_cast<std::int64_t>(prompt.prompt->ids.size());
    settings.length_penalty = fields.length_penalty;
    if (!fields.ignore_eos) settings.ends = processor_.shape().eos;
    settings.keep_end = fields.include_stop_str_in_output;
    settings.listed = prompt.sampling.logprobs.value_or(0);
    const auto run = std::make_shared<BeamRun>(
        std::move(settings), given, prompt, engine_,
        [answer](RequestId id) { return answer->add(id); },
        [this, answer, first](std::size_t rank, Delta&& delta, const RequestUsage& usage,
                              const RequestTimes& times) {
          if (answer->on_delta(static_cast<int>(first + rank), std::move(delta), usage, times,
                               writes_))
            --unfinished_;
        });
    TRY_DO(run->start());
    first += given;
  }
  submission.complete();
  return {};
}

// What both kinds of request say alike of their answer's form.
AnswerForm Service::answer_form(const api::DeliveryFields& delivery, const Reply& reply) const {
  AnswerForm form;
  form.stream = delivery.stream;
  form.usage_with_pieces = delivery.continuous_usage_stats;
  form.errors = reply.errors;
  form.metrics = delivery.metrics || settings_.metrics_always;
  form.return_token_ids = delivery.return_token_ids;
  form.return_prompt_text = delivery.return_prompt_text;
  form.include_reasoning = delivery.include_reasoning;
  form.tokens_as_ids = delivery.tokens_as_ids || settings_.tokens_as_ids_always;
  form.tokenizer = builder_.tokenizer();
  form.headers = reply.headers;
  return form;
}

Result<void> Service::with_media(const api::ChatRequest& request,
                                 std::shared_ptr<ByteReservation> reserved, const Reply& reply,
                                 WithFiles then) {
  if (request.images.empty() && request.videos.empty()) return then({});
  TRY(std::vector<DownloadOrder::Item> remote, builder_.media().remote(request));
  const auto resume = [this, reply, then = std::move(then)](Result<FetchedMedia> media) {
    router_.resume(reply, [this, reply, then, media = std::move(media)]() mutable {
      const auto done = media ? then(*std::move(media)) : fail(std::move(media).error());
      if (!done) router_.respond_error(reply, done.error());
    });
  };
  const bool files = std::ranges::any_of(
      request.videos, [](const api::VideoPart& video) { return !video.file.empty(); });
  auto with_downloads = [this, files, &request, reserved, reply,
                         resume](HttpDownloads::Files downloaded) {
    if (!downloaded) return resume(fail(std::move(downloaded).error()));
    if (!files) return resume(FetchedMedia{*std::move(downloaded), {}});
    decode_videos(request, *std::move(downloaded), reserved, reply, resume);
  };
  if (remote.empty()) {
    with_downloads({});
  } else {
    downloads_.start({std::move(remote), settings_.max_request_media_bytes, std::move(reserved),
                      [to = reply.to] { return to.disconnected(); }},
                     std::move(with_downloads));
  }
  return {};
}

void Service::decode_videos(const api::ChatRequest& request, std::vector<std::string> downloaded,
                            std::shared_ptr<ByteReservation> reserved, const Reply& reply,
                            std::function<void(Result<FetchedMedia>)> done) {
  const bool taken = video_threads_->post([this, &request, downloaded = std::move(downloaded),
                                           reserved = std::move(reserved), reply, done]() mutable {
    const auto cancelled = [this, &reply] { return stopping_ || reply.to.disconnected(); };
    done(builder_.media().decode_videos(request, std::move(downloaded), reserved.get(), cancelled));
  });
  if (!taken)
    done(fail(ErrorCode::kExhausted, "{} requests wait for their videos to be decoded",
              settings_.max_preparing));
}

// A chat on its way to the engine.
struct Service::Chat {
  api::ChatRequest request;
  std::shared_ptr<Answer> answer;
  Nanos arrival = 0;
  std::uint64_t client = 0;
  std::shared_ptr<ByteReservation> reserved;  // the body's, and what is fetched
  Reply reply;
  double rate = 0;              // of requests, this one included: ImageSizer::arrived()
  std::optional<Nanos> target;  // its own, to the first token
};

std::unique_ptr<api::AnswerWriter> Service::completion_writer(api::CompletionForm form, bool stream,
                                                              std::size_t choices) const {
  form.include_usage = form.include_usage || settings_.usage_always;
  return stream ? api::completion_stream(std::move(form))
                : api::whole_completion(std::move(form), choices);
}

Result<void> Service::chat(const net::HttpRequest& request, const Reply& reply) {
  TRY(api::ChatRequest chat, api::parse_chat_request(request.body));
  TRY_DO(router_.check_model(chat.model));
  TRY_DO(
      check_places(1, chat.sampling.n, chat.sampling.beam_search, engine_.settings().max_waiting));
  AnswerForm form = answer_form(chat.delivery, reply);
  api::AnswerHead head = router_.head("chatcmpl-", chat.delivery.request_id, chat.model);
  form.id = head.id;
  form.logprobs = chat.logprobs;
  form.prompt_logprobs = chat.sampling.prompt_logprobs.has_value();
  form.usage_with_pieces = form.usage_with_pieces || settings_.usage_always;
  auto writer = completion_writer({std::move(head), true, chat.delivery.include_usage}, form.stream,
                                  static_cast<std::size_t>(chat.sampling.n));
  return answer_chat(std::move(chat), std::move(form), std::move(writer), request, reply);
}

struct Service::ChatBatch {
  std::vector<std::shared_ptr<const Chat>> jobs;
  std::vector<Request> made;  // of the first of them
};

Result<void> Service::chat_batch(const net::HttpRequest& request, const Reply& reply) {
  TRY(std::vector<api::ChatRequest> chats,
      api::parse_chat_batch(request.body, request.reserved.get()));
  const api::ChatRequest& first = chats.front();
  TRY_DO(router_.check_model(first.model));
  TRY_DO(check_places(chats.size(), 1, false, engine_.settings().max_waiting));
  router_.warn_unknown(first.unknown);
  AnswerForm form = answer_form(first.delivery, reply);
  api::AnswerHead head = router_.head("chatcmpl-", first.delivery.request_id, first.model);
  form.id = head.id;
  form.logprobs = first.logprobs;
  auto writer = completion_writer({std::move(head), true, false}, false, chats.size());
  const auto answer = std::make_shared<Answer>(std::move(form), std::move(writer),
                                               static_cast<int>(chats.size()), 1, reply.to);
  watch(answer, reply);
  TRY(const auto target, ttft_target(first.delivery, request));
  const double rate = sizer_ != nullptr ? sizer_->arrived() : 0;
  const auto batch = std::make_shared<ChatBatch>();
  for (api::ChatRequest& chat : chats)
    batch->jobs.push_back(std::make_shared<const Chat>(std::move(chat), answer, reply.arrival,
                                                       reply.client, request.reserved, reply, rate,
                                                       target));
  return prepare_batch(batch);
}

Result<void> Service::prepare_batch(const std::shared_ptr<ChatBatch>& batch) {
  const auto take = [this, batch](FetchedMedia fetched) -> Result<bool> {
    TRY(std::optional<Request> made,
        request_of(*batch->jobs[batch->made.size()], std::move(fetched)));
    if (made) batch->made.push_back(*std::move(made));
    return made.has_value();
  };
  while (batch->made.size() < batch->jobs.size()) {
    const Chat& job = *batch->jobs[batch->made.size()];
    if (!job.request.images.empty() || !job.request.videos.empty())
      return with_media(job.request, job.reserved, job.reply,
                        [this, batch, take](FetchedMedia fetched) -> Result<void> {
                          TRY(const bool taken, take(std::move(fetched)));
                          return taken ? prepare_batch(batch) : Result<void>();
                        });
    TRY(const bool taken, take({}));
    if (!taken) return {};
  }
  return submit(batch->jobs.front()->answer, batch->made, 1);
}

Result<void> Service::responses(const net::HttpRequest& request, const Reply& reply) {
  TRY(StoredResponses::Begun begun, responses_.begin(request, reply));
  AnswerForm form = answer_form(begun.chat.delivery, reply);
  form.id = std::move(begun.id);
  form.logprobs = begun.chat.logprobs;
  return answer_chat(std::move(begun.chat), std::move(form), std::move(begun.writer), request,
                     reply);
}

Result<void> Service::messages(const net::HttpRequest& request, const Reply& reply) {
  TRY(api::ChatRequest chat, api::parse_messages_request(request.body));
  TRY_DO(router_.check_model(chat.model));
  AnswerForm form = answer_form(chat.delivery, reply);
  form.usage_with_pieces = form.stream;
  api::AnswerHead head = router_.head("msg_", "", chat.model);
  form.id = head.id;
  auto writer = api::messages_writer({std::move(head), form.stream});
  return answer_chat(std::move(chat), std::move(form), std::move(writer), request, reply);
}

Result<void> Service::count_tokens(const net::HttpRequest& request, const Reply& reply) {
  TRY(api::ChatRequest chat, api::parse_count_tokens_request(request.body));
  TRY_DO(router_.check_model(chat.model));
  return count(std::move(chat), "", request, reply);
}

Result<void> Service::response_tokens(const net::HttpRequest& request, const Reply& reply) {
  TRY(api::ChatRequest chat, responses_.conversation(request, reply));
  return count(std::move(chat), "response.input_tokens", request, reply);
}

Result<void> Service::count(api::ChatRequest chat, std::string_view object,
                            const net::HttpRequest& request, const Reply& reply) {
  router_.warn_unknown(chat.unknown);
  const auto job = std::make_shared<const api::ChatRequest>(std::move(chat));
  return with_media(*job, request.reserved, reply,
                    [this, job, object, reply](FetchedMedia fetched) -> Result<void> {
                      TRY(const BuiltPrompt built, counted(*job, reply.client, std::move(fetched)));
                      router_.respond(
                          reply, json_response(api::token_count_response(
                                     static_cast<std::int64_t>(built.prompt.ids.size()), object)));
                      return {};
                    });
}

Result<void> Service::invocations(const net::HttpRequest& request, const Reply& reply) {
  TRY(const json::value body, api::parse_body(request.body));
  return json::find(body.get_object(), "messages") != nullptr ? chat(request, reply)
                                                              : completions(request, reply);
}

Result<void> Service::answer_chat(api::ChatRequest chat, AnswerForm form,
                                  std::unique_ptr<api::AnswerWriter> writer,
                                  const net::HttpRequest& request, const Reply& reply) {
  router_.warn_unknown(chat.unknown);
  const int n = static_cast<int>(chat.sampling.n);
  auto answer = std::make_shared<Answer>(std::move(form), std::move(writer), 1, n, reply.to);
  watch(answer, reply);
  TRY(const auto target, ttft_target(chat.delivery, request));
  const double rate = sizer_ != nullptr ? sizer_->arrived() : 0;
  const auto job =
      std::make_shared<const Chat>(std::move(chat), std::move(answer), reply.arrival, reply.client,
                                   request.reserved, reply, rate, target);
  return with_media(job->request, job->reserved, reply, [this, job](FetchedMedia fetched) {
    return prepare_chat(*job, std::move(fetched));
  });
}

Result<void> Service::prepare_chat(const Chat& job, FetchedMedia fetched) {
  TRY(std::optional<Request> made, request_of(job, std::move(fetched)));
  if (!made) return {};
  const api::SamplingFields& sampling = job.request.sampling;
  if (!sampling.beam_search) return submit(job.answer, {*made}, static_cast<int>(sampling.n));
  if (made->sampling.grammar)
    return fail(Error{ErrorCode::kInvalid,
                      "'tool_choice' demands a call, which 'use_beam_search' does not follow",
                      "tool_choice"});
  return submit_beams(job.answer, {*made}, sampling, sampling.n);
}

Result<std::optional<Request>> Service::request_of(const Chat& job, FetchedMedia fetched) {
  const api::ChatRequest& chat = job.request;
  const std::shared_ptr<Answer>& answer = job.answer;
  RequestOrigin origin{job.client, {}, {}};
  origin.times.arrival = job.arrival;
  TRY(origin.adapter, adapter_of(chat.model));
  std::optional<ImageSizing> sizing = sizing_of(job);
  auto built_prompt = builder_.chat(chat,
                                    {.client = job.client,
                                     .fetched = std::move(fetched),
                                     .reserved = job.reserved,
                                     .cancelled = answer->cancelled(),
                                     .times = origin.times,
                                     .sizing = sizing ? &*sizing : nullptr},
                                    engine_.settings().max_model_len);
  if (!built_prompt && sizing && sizing->sized.retry_after > 0) {
    router_.respond_later(job.reply, built_prompt.error(), sizing->sized.retry_after);
    return std::nullopt;
  }
  TRY(BuiltPrompt built, std::move(built_prompt));
  const RequestTimes& times = origin.times;
  metrics_.observe_stage("media", seconds(times.media_done - times.arrival));
  metrics_.observe_stage("preprocess", seconds(times.preprocessed - times.media_done));
  std::optional<std::int64_t> logprobs;
  if (chat.logprobs) logprobs = chat.top_logprobs;
  api::SamplingFields fields = chat.sampling;
  if (built.demanded) fields.structured = std::move(built.demanded);
  TRY(SamplingParams sampling, builder_.sampling(fields, logprobs, fields.prompt_logprobs));
  if (sampling.prompt_logprobs)
    TRY_DO(
        api::check_prompt_logprobs(fields.n, built.prompt.ids.size(), *sampling.prompt_logprobs));
  TRY(sampling.max_tokens,
      builder_.max_tokens(chat.sampling, static_cast<std::int64_t>(built.prompt.ids.size()),
                          engine_.settings().max_model_len, std::nullopt));
  const tools::ParserForm& reading = built.reading;
  if (reading.calls != nullptr || reading.reasoning != nullptr) {
    answer->read_as(reading, chat.tools.parallel);
    if (has_special_markers(reading, *builder_.tokenizer())) sampling.skip_special_tokens = false;
  }
  if (settings_.log_requests) {
    log::info("{}: {} prompt tokens, {} images, {} videos, max_tokens {}", answer->id(),
              built.prompt.ids.size(), built.image_tokens.size(), built.video_tokens.size(),
              sampling.max_tokens);
  }
  if (chat.delivery.return_token_ids || chat.delivery.return_prompt_text) {
    Answer::ShownPrompt prompt;
    if (chat.delivery.return_token_ids)
      prompt.ids = std::make_shared<const std::vector<TokenId>>(built.prompt.ids);
    prompt.text = std::move(built.text);
    answer->show_next(std::move(prompt));
  }
  if (chat.echoes()) answer->echo_next({chat.messages.back().text(), built.prompt.ids.front()});
  Request made = builder_.request(origin, chat.delivery, std::move(built), std::move(sampling));
  if (sizing) {
    track(made, sizing->sized.work);
    if (sizing->sized.native_tokens > 0)
      answer->add_header("x-saccade-image-scale", fmt::format("{:.2f}", sizing->sized.scale()));
  }
  return made;
}

// Whoever sizes images knows how far it is.
void Service::track(Request& request, const std::shared_ptr<PendingWork>& work) {
  sizer_->submitted(*work, static_cast<std::int64_t>(request.prompt->ids.size()));
  request.progress = {work, &work->progress};
}

std::optional<ImageSizing> Service::sizing_of(const Chat& job) const {
  if (sizer_ == nullptr) return std::nullopt;
  // Before anything is rendered and tokenised: a token of text is about four bytes.
  constexpr std::size_t kBytesOfToken = 4;
  std::size_t bytes = 0;
  for (const api::Message& message : job.request.messages)
    for (const api::ContentPart& part : message.content) bytes += part.text.size();
  SizingRequest request;
  request.arrival = job.arrival;
  request.rate = job.rate;
  request.target = job.target;
  request.text_tokens = static_cast<std::int64_t>(bytes / kBytesOfToken);
  request.cache_salt = job.request.delivery.cache_salt;
  return ImageSizing{*sizer_, std::move(request)};
}

Result<std::optional<Nanos>> Service::ttft_target(const api::DeliveryFields& delivery,
                                                  const net::HttpRequest& request) {
  if (delivery.ttft_slo_ms) return *delivery.ttft_slo_ms * kMillisecond;
  for (const std::string_view name : {"x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"}) {
    const std::string_view text = request.header(name);
    if (text.empty()) continue;
    std::int64_t ms = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
    if (error != std::errc() || end != text.data() + text.size() || ms < 1 ||
        ms > api::limits::kMaxSloMs)
      return fail(ErrorCode::kInvalid, "{} is '{}', 1 to {} milliseconds are possible", name,
                  text.substr(0, 40), api::limits::kMaxSloMs);
    return ms * kMillisecond;
  }
  return std::nullopt;
}

Result<void> Service::completions(const net::HttpRequest& request, const Reply& reply) {
  TRY(const api::CompletionRequest completion, api::parse_completion_request(request.body));
  TRY_DO(router_.check_model(completion.model));
  TRY_DO(check_places(completion.prompts.size(), completion.best_of,
                      completion.sampling.beam_search, engine_.settings().max_waiting));
  router_.warn_unknown(completion.unknown);

  AnswerForm form = answer_form(completion.delivery, reply);
  api::AnswerHead head = router_.head("cmpl-", completion.delivery.request_id, completion.model);
  form.id = head.id;
  // The best are told by their log-probabilities.
  const bool beams = completion.sampling.beam_search;
  const bool choosy = completion.best_of > completion.sampling.n && !beams;
  form.logprobs = completion.logprobs || choosy;

  TRY(const SamplingParams sampling,
      builder_.sampling(
          completion.sampling,
          form.logprobs ? std::optional(completion.logprobs.value_or(0)) : std::nullopt,
          completion.prompt_logprobs()));
  form.prompt_alone = completion.prompt_alone();
  form.prompt_logprobs = completion.sampling.prompt_logprobs.has_value();
  form.usage_with_pieces = form.usage_with_pieces || settings_.usage_always;
  if (completion.echo && completion.logprobs)
    form.echo_logprobs = static_cast<std::size_t>(*completion.logprobs);
  const int n = static_cast<int>(beams ? completion.sampling.n : completion.best_of);
  const auto given = static_cast<std::size_t>(completion.sampling.n);
  auto writer = completion_writer({std::move(head), false, completion.delivery.include_usage},
                                  form.stream, completion.prompts.size() * given);
  if (choosy)
    writer = api::best_choices({completion.prompts.size(), static_cast<std::size_t>(n), given,
                                completion.logprobs.has_value()},
                               std::move(writer));
  auto answer = std::make_shared<Answer>(std::move(form), std::move(writer),
                                         static_cast<int>(completion.prompts.size()), n, reply.to);
  watch(answer, reply);

  if (sizer_ != nullptr) sizer_->arrived();
  const std::int64_t most = engine_.settings().max_model_len;
  RequestOrigin origin{reply.client, {}, {}};
  origin.times.arrival = reply.arrival;
  origin.times.media_done = reply.arrival;
  TRY(origin.adapter, adapter_of(completion.model));
  std::vector<Request> requests;
  ToldPrompts told(completion, static_cast<std::size_t>(n), sampling.prompt_logprobs);
  for (const auto& prompt : completion.prompts) {
    TRY(BuiltPrompt built, builder_.completion(prompt, completion, most, answer->cancelled()));
    origin.times.preprocessed = clock_.now();
    SamplingParams own = sampling;
    TRY(own.max_tokens,
        builder_.max_tokens(completion.sampling, static_cast<std::int64_t>(built.prompt.ids.size()),
                            most, 16));
    // The engine has no prompts without an answer: one token that nobody gets.
    own.max_tokens = std::max<std::int64_t>(1, own.max_tokens);
    TRY_DO(told.tell(prompt, built, *builder_.tokenizer(), *answer));
    Request made = builder_.request(origin, completion.delivery, std::move(built), std::move(own));
    if (sizer_ != nullptr) {
      SizingRequest sizing;
      sizing.arrival = reply.arrival;
      sizing.text_tokens = static_cast<std::int64_t>(made.prompt->ids.size());
      SizedRequest sized;
      if (const auto done = sizer_->size({}, sizing, sized); !done) {
        router_.respond_later(reply, done.error(), std::max<std::int64_t>(1, sized.retry_after));
        return {};
      }
      track(made, sized.work);
    }
    requests.push_back(std::move(made));
  }
  if (settings_.log_requests)
    log::info("{}: {} prompts, n {}", answer->id(), completion.prompts.size(), n);
  if (beams) return submit_beams(answer, requests, completion.sampling, completion.best_of);
  return submit(answer, requests, n);
}

Result<void> Service::tokenize(const net::HttpRequest& request, const Reply& reply) {
  TRY(api::TokenizeRequest tokenize, api::parse_tokenize_request(request.body));
  TRY_DO(router_.check_model(tokenize.model));
  router_.warn_unknown(tokenize.unknown);
  const auto job = std::make_shared<const api::TokenizeRequest>(std::move(tokenize));
  const std::shared_ptr<ByteReservation> reserved = request.reserved;
  const auto answer = [this, job, reply, reserved](FetchedMedia fetched) -> Result<void> {
    router_.respond(reply, token_counts(*job, reply.client, std::move(fetched)));
    return {};
  };
  return job->chat ? with_media(*job->chat, reserved, reply, answer) : answer({});
}

Result<BuiltPrompt> Service::counted(const api::ChatRequest& chat, std::uint64_t client,
                                     FetchedMedia fetched) const {
  const std::atomic<bool> never = false;
  RequestTimes times;
  return builder_.chat(
      chat, {.client = client, .fetched = std::move(fetched), .cancelled = never, .times = times},
      kMaxCounted);
}

Result<std::string> Service::token_counts(const api::TokenizeRequest& tokenize,
                                          std::uint64_t client, FetchedMedia fetched) const {
  BuiltPrompt built;
  if (tokenize.chat) {
    TRY(built, counted(*tokenize.chat, client, std::move(fetched)));
  } else {
    const LimitedTokenizer tokenizer(*builder_.tokenizer(), kMaxCounted, nullptr);
    built.prompt.ids = tokenizer.encode(tokenize.prompt.value_or(""),
                                        {.add_special_tokens = tokenize.add_special_tokens,
                                         .parse_special_tokens = tokenize.parse_special_tokens});
    TRY_DO(tokenizer.check());
  }
  std::vector<std::string> strings;
  for (const TokenId id : built.prompt.ids) strings.emplace_back(builder_.tokenizer()->piece(id));
  return api::tokenize_response(built.prompt.ids, engine_.settings().max_model_len,
                                tokenize.return_token_strs ? &strings : nullptr, built.image_tokens,
                                built.video_tokens);
}

void Service::reset_prefix_cache(const Reply& reply) {
  if (!engine_.reset_prefix_cache()) {
    return router_.respond_error(
        reply,
        Error{ErrorCode::kUnavailable, "the prefix cache is in use by running requests", {}});
  }
  router_.respond(reply, {200, "text/plain", "", {}});
}

void Service::after_step() {
  if (writes_.empty()) return;
  net::write_all(std::exchange(writes_, {}));
}

}  // namespace saccade::serve
