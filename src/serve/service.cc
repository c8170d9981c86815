#include "serve/service.h"

#include <algorithm>
#include <utility>

#include "api/error_table.h"
#include "api/tokenize_request.h"
#include "base/log.h"
#include "base/rng.h"
#include "serve/metrics_page.h"

namespace saccade::serve {
namespace {

constexpr std::string_view kVersion = SACCADE_VERSION;
constexpr std::string_view kModelPrefix = "/v1/models/";

net::HttpResponse json_response(std::string body, int status = 200) {
  return {status, "application/json", std::move(body), {}};
}

// A decrement that happens however the job ends.
class Counted {
 public:
  Counted(std::atomic<std::size_t>& count, std::size_t amount) : count_(count), amount_(amount) {
    count_ += amount_;
  }
  ~Counted() { count_ -= amount_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<std::size_t>& count_;
  std::size_t amount_;
};

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^
                              static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]));
  }
  return difference == 0;
}

}  // namespace

Service::Service(const ServeSettings& settings, const Model& model, RequestBuilder& builder,
                 Engine& engine, MetricsPage& metrics, const Clock& clock)
    : settings_(settings),
      model_(model),
      builder_(builder),
      engine_(engine),
      metrics_(metrics),
      clock_(clock),
      started_at_(wall_clock_now() / kSecond),
      workers_(settings.worker_threads, settings.max_preparing) {
  engine_.set_after_step([this] { after_step(); });
}

Service::~Service() = default;

const std::vector<Service::Route>& Service::routes() {
  static const std::vector<Route> table = {
      {"POST", "/v1/chat/completions", &Service::chat, true, true},
      {"POST", "/v1/completions", &Service::completions, true, true},
      {"POST", "/tokenize", &Service::tokenize, true, true},
      {"POST", "/detokenize", &Service::detokenize, true, true},
      {"GET", "/v1/models", &Service::models, true, false},
      {"GET", "/health", &Service::health, false, false},
      {"GET", "/ping", &Service::health, false, false},
      {"POST", "/ping", &Service::health, false, false},
      {"GET", "/version", &Service::version, false, false},
      {"GET", "/metrics", &Service::metrics, false, false},
      {"POST", "/reset_prefix_cache", &Service::reset_prefix_cache, true, false},
      {"POST", "/reset_mm_cache", &Service::reset_mm_cache, true, false},
      {"POST", "/start_profile", &Service::no_profiler, true, false},
      {"POST", "/stop_profile", &Service::no_profiler, true, false},
  };
  return table;
}

void Service::handle(net::HttpRequest request, net::Responder responder) {
  Reply reply{std::move(responder), cors_headers(request.header("origin")), clock_.now()};
  if (request.method == "OPTIONS") {
    net::HttpResponse preflight{200, "text/plain", "", {}};
    preflight.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                         {"Access-Control-Allow-Headers", "*"},
                         {"Access-Control-Max-Age", "600"}};
    return respond(reply, std::move(preflight));
  }
  static const Route one_model_route{"GET", kModelPrefix, &Service::one_model, true, false};
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  bool path_known = false;
  for (const Route& route : routes()) {
    if (route.path != request.path) continue;
    path_known = true;
    if (route.method == method) return dispatch(route, std::move(request), std::move(reply));
  }
  if (request.path.starts_with(kModelPrefix)) {
    path_known = true;
    if (method == "GET") return dispatch(one_model_route, std::move(request), std::move(reply));
  }
  if (path_known) {
    return respond(reply, json_response(api::error_body(405, "MethodNotAllowedError",
                                                        fmt::format("{} does not take {}",
                                                                    request.path, request.method)),
                                        405));
  }
  respond_error(reply,
                Error{ErrorCode::kNotFound, fmt::format("there is no {}", request.path), {}});
}

void Service::dispatch(const Route& route, net::HttpRequest request, Reply reply) {
  if (route.needs_key && !authorised(request)) {
    return respond(
        reply, json_response(
                   api::error_body(401, "AuthenticationError",
                                   "the Authorization header carries no API key this server knows"),
                   401));
  }
  if (!route.is_work) return (this->*route.handler)(std::move(request), std::move(reply));
  if (draining_) {
    return respond_error(reply, Error{ErrorCode::kUnavailable, "the server is shutting down", {}});
  }
  if (preparing_bytes_ + request.body.size() > settings_.max_preparing_bytes) {
    return respond_error(
        reply, Error{ErrorCode::kUnavailable,
                     fmt::format("request bodies of {} MiB are being prepared, the limit is {} MiB",
                                 preparing_bytes_ >> 20, settings_.max_preparing_bytes >> 20),
                     {}});
  }
  post_job(route, std::move(request), std::move(reply));
}

void Service::post_job(const Route& route, net::HttpRequest request, Reply reply) {
  struct Job {
    net::HttpRequest request;
    Reply reply;
    Counted one;
    Counted bytes;
  };
  // The body is moved, so its size is taken first.
  const std::size_t body_bytes = request.body.size();
  auto job = std::shared_ptr<Job>(
      new Job{std::move(request), reply, {preparing_, 1}, {preparing_bytes_, body_bytes}});
  const bool taken = workers_.post([this, &route, job] {
    if (!job->reply.to.disconnected()) (this->*route.handler)(std::move(job->request), job->reply);
  });
  if (!taken) {
    respond_error(reply, Error{ErrorCode::kExhausted,
                               fmt::format("{} requests are being prepared, the limit is {}",
                                           workers_.queued(), settings_.max_preparing),
                               {}});
  }
}

bool Service::authorised(const net::HttpRequest& request) const {
  if (settings_.api_keys.empty()) return true;
  std::string_view given = request.header("authorization");
  constexpr std::string_view kBearer = "Bearer ";
  if (given.starts_with(kBearer)) given.remove_prefix(kBearer.size());
  bool found = false;
  for (const auto& key : settings_.api_keys) found = equal_in_constant_time(given, key) || found;
  return found;
}

std::vector<std::pair<std::string, std::string>> Service::cors_headers(
    std::string_view origin) const {
  const auto& allowed = settings_.allowed_origins;
  const auto allows = [&](std::string_view name) {
    return std::find(allowed.begin(), allowed.end(), name) != allowed.end();
  };
  if (allows("*")) return {{"Access-Control-Allow-Origin", "*"}};
  // Caches must not give one origin's answer to another.
  if (!allows(origin)) return {{"Vary", "Origin"}};
  return {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
}

void Service::respond(const Reply& reply, net::HttpResponse response) const {
  response.headers.insert(response.headers.end(), reply.headers.begin(), reply.headers.end());
  reply.to.respond(std::move(response));
}

void Service::respond_error(const Reply& reply, const Error& error) const {
  net::HttpResponse response =
      json_response(api::error_body(error), api::kind_of(error.code).status);
  if (error.code == ErrorCode::kExhausted || error.code == ErrorCode::kUnavailable) {
    response.headers.emplace_back("Retry-After", "1");
  }
  respond(reply, std::move(response));
}

Result<void> Service::check_model(const std::string& name) const {
  const auto& names = settings_.served_model_name;
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return {};
  return fail(
      Error{ErrorCode::kNotFound, fmt::format("The model `{}` does not exist.", name), "model"});
}

void Service::warn_unknown(const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  for (const auto& name : names) {
    if (warned_.size() < 256 && warned_.insert(name).second) {
      log::warning("request field '{}' is not known and has no effect (said once)",
                   name.substr(0, 64));
    }
  }
}

api::AnswerHead Service::head(std::string_view prefix, const std::string& request_id,
                              const std::string& model) const {
  api::AnswerHead made;
  const auto self = next_answer_++;
  made.id = request_id.empty()
                ? fmt::format("{}{:016x}{:08x}", prefix,
                              mix64(static_cast<std::uint64_t>(wall_clock_now())), self)
                : fmt::format("{}{}", prefix, request_id);
  made.created = wall_clock_now() / kSecond;
  made.model = model.empty() ? settings_.served_model_name.front() : model;
  return made;
}

void Service::watch(const std::shared_ptr<Answer>& answer, const Reply& reply) {
  // Weak: the answer owns the Responder, which owns this callback.
  reply.to.on_disconnect([this, weak = std::weak_ptr<Answer>(answer)] {
    const auto alive = weak.lock();
    if (!alive) return;
    for (const RequestId id : alive->cancel()) engine_.cancel(id);
  });
}

Result<void> Service::submit(const std::shared_ptr<Answer>& answer, std::vector<Request> requests) {
  ++unfinished_;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const int choice = static_cast<int>(i);
    auto sink = [this, answer, choice](RequestId, Delta&& delta, const RequestUsage& usage,
                                       const RequestTimes& times) {
      if (answer->on_delta(choice, std::move(delta), usage, times, writes_)) --unfinished_;
    };
    requests[i].times.queued = clock_.now();
    auto id = engine_.submit(std::move(requests[i]), std::move(sink));
    if (!id) {
      // Nothing of this answer is sent: choices already taken are cancelled, and their ends are not
      // waited for.
      for (const RequestId taken : answer->cancel()) engine_.cancel(taken);
      --unfinished_;
      return fail(std::move(id).error());
    }
    if (!answer->add(*id)) engine_.cancel(*id);
  }
  return {};
}

void Service::chat(net::HttpRequest request, Reply reply) {
  const auto done = try_chat(request, reply);
  if (!done) respond_error(reply, done.error());
}

Result<void> Service::try_chat(const net::HttpRequest& request, const Reply& reply) {
  TRY(const api::ChatRequest chat, api::parse_chat_request(request.body));
  TRY_DO(check_model(chat.model));
  warn_unknown(chat.unknown);

  AnswerForm form;
  form.head = head("chatcmpl-", chat.delivery.request_id, chat.model);
  form.chat = true;
  form.stream = chat.delivery.stream;
  form.include_usage = chat.delivery.include_usage;
  form.continuous_usage = chat.delivery.continuous_usage_stats;
  form.metrics = chat.delivery.metrics;
  form.return_token_ids = chat.delivery.return_token_ids;
  form.logprobs = chat.logprobs;
  form.tokenizer = builder_.tokenizer();
  form.headers = reply.headers;
  const int n = static_cast<int>(chat.sampling.n);
  auto answer = std::make_shared<Answer>(std::move(form), 1, n, reply.to);
  watch(answer, reply);

  Request made;
  made.times.arrival = reply.arrival;
  TRY(BuiltPrompt built, builder_.chat(chat, ImageWork::kPrepare, answer->cancelled(), made.times));
  metrics_.observe_stage("media", seconds(made.times.media_done - reply.arrival));
  metrics_.observe_stage("preprocess", seconds(made.times.preprocessed - made.times.media_done));
  std::optional<std::int64_t> logprobs;
  if (chat.logprobs) logprobs = chat.top_logprobs;
  TRY(made.sampling,
      builder_.sampling(chat.sampling, static_cast<std::int64_t>(built.prompt.ids.size()),
                        engine_.settings().max_model_len, std::nullopt, logprobs));
  if (settings_.log_requests) {
    log::info("{}: {} prompt tokens, {} images, max_tokens {}", answer->id(),
              built.prompt.ids.size(), built.images.size(), made.sampling.max_tokens);
  }
  made.prompt = std::move(built.prompt);
  made.images = std::move(built.images);
  made.priority = chat.delivery.priority;
  made.cache_salt = chat.delivery.cache_salt;
  made.tokenizer = builder_.tokenizer();
  std::vector<Request> requests(static_cast<std::size_t>(n), made);
  for (int k = 1; k < n; ++k) {
    auto& seed = requests[static_cast<std::size_t>(k)].sampling.seed;
    if (seed) seed = *seed + static_cast<std::uint64_t>(k);
  }
  return submit(answer, std::move(requests));
}

void Service::completions(net::HttpRequest request, Reply reply) {
  const auto done = try_completions(request, reply);
  if (!done) respond_error(reply, done.error());
}

Result<void> Service::try_completions(const net::HttpRequest& request, const Reply& reply) {
  TRY(const api::CompletionRequest completion, api::parse_completion_request(request.body));
  TRY_DO(check_model(completion.model));
  warn_unknown(completion.unknown);

  AnswerForm form;
  form.head = head("cmpl-", completion.delivery.request_id, completion.model);
  form.chat = false;
  form.stream = completion.delivery.stream;
  form.include_usage = completion.delivery.include_usage;
  form.continuous_usage = completion.delivery.continuous_usage_stats;
  form.metrics = completion.delivery.metrics;
  form.return_token_ids = completion.delivery.return_token_ids;
  form.logprobs = completion.logprobs.has_value();
  form.tokenizer = builder_.tokenizer();
  form.headers = reply.headers;

  std::vector<Request> requests;
  const int n = static_cast<int>(completion.sampling.n);
  for (const auto& prompt : completion.prompts) {
    Request made;
    made.times.arrival = reply.arrival;
    made.times.media_done = reply.arrival;
    TRY(BuiltPrompt built, builder_.completion(prompt, completion.add_special_tokens));
    made.times.preprocessed = clock_.now();
    TRY(made.sampling,
        builder_.sampling(completion.sampling, static_cast<std::int64_t>(built.prompt.ids.size()),
                          engine_.settings().max_model_len, 16, completion.logprobs));
    made.priority = completion.delivery.priority;
    made.cache_salt = completion.delivery.cache_salt;
    made.tokenizer = builder_.tokenizer();
    if (completion.echo) {
      const std::string text =
          prompt.is_tokens ? builder_.tokenizer()->decode(built.prompt.ids, true) : prompt.text;
      form.echo.insert(form.echo.end(), static_cast<std::size_t>(n), text);
    }
    made.prompt = std::move(built.prompt);
    for (int k = 0; k < n; ++k) {
      requests.push_back(made);
      auto& seed = requests.back().sampling.seed;
      if (seed) seed = *seed + static_cast<std::uint64_t>(k);
    }
  }
  auto answer = std::make_shared<Answer>(std::move(form),
                                         static_cast<int>(completion.prompts.size()), n, reply.to);
  watch(answer, reply);
  if (settings_.log_requests)
    log::info("{}: {} prompts, n {}", answer->id(), completion.prompts.size(), n);
  return submit(answer, std::move(requests));
}

void Service::tokenize(net::HttpRequest request, Reply reply) {
  const auto answer = [&]() -> Result<std::string> {
    TRY(const api::TokenizeRequest tokenize, api::parse_tokenize_request(request.body));
    TRY_DO(check_model(tokenize.model));
    BuiltPrompt built;
    if (tokenize.chat) {
      const std::atomic<bool> never = false;
      RequestTimes times;
      TRY(built, builder_.chat(*tokenize.chat, ImageWork::kMeasure, never, times));
    } else {
      built.prompt.ids = builder_.tokenizer()->encode(
          tokenize.prompt.value_or(""), {.add_special_tokens = tokenize.add_special_tokens});
    }
    std::vector<std::int64_t> image_tokens(tokenize.chat ? tokenize.chat->images.size() : 0);
    for (const ImageSpan& span : built.prompt.images) {
      image_tokens[static_cast<std::size_t>(span.index)] += span.tokens;
    }
    std::vector<std::string> strings;
    for (const TokenId id : built.prompt.ids) strings.emplace_back(builder_.tokenizer()->piece(id));
    return api::tokenize_response(built.prompt.ids, engine_.settings().max_model_len,
                                  tokenize.return_token_strs ? &strings : nullptr, image_tokens);
  }();
  if (!answer) return respond_error(reply, answer.error());
  respond(reply, json_response(*answer));
}

void Service::detokenize(net::HttpRequest request, Reply reply) {
  const auto answer = [&]() -> Result<std::string> {
    TRY(const api::DetokenizeRequest detokenize, api::parse_detokenize_request(request.body));
    TRY_DO(check_model(detokenize.model));
    std::vector<TokenId> ids;
    for (const std::int64_t id : detokenize.tokens) {
      if (id < 0 || id >= builder_.tokenizer()->vocab_size()) {
        return fail(Error{ErrorCode::kInvalid,
                          fmt::format("token id {} is outside the vocabulary of {}", id,
                                      builder_.tokenizer()->vocab_size()),
                          "tokens"});
      }
      ids.push_back(static_cast<TokenId>(id));
    }
    return api::detokenize_response(builder_.tokenizer()->decode(ids, false));
  }();
  if (!answer) return respond_error(reply, answer.error());
  respond(reply, json_response(*answer));
}

std::vector<api::ModelCard> Service::cards() const {
  std::vector<api::ModelCard> cards;
  for (const auto& name : settings_.served_model_name) {
    cards.push_back({name, started_at_, settings_.model, engine_.settings().max_model_len,
                     model_.shape().has_vision, model_.max_image_tokens()});
  }
  return cards;
}

void Service::models(net::HttpRequest, Reply reply) {
  respond(reply, json_response(api::model_list(cards())));
}

void Service::one_model(net::HttpRequest request, Reply reply) {
  const std::string name = request.path.substr(kModelPrefix.size());
  for (const auto& card : cards()) {
    if (card.id == name) return respond(reply, json_response(api::model_card(card)));
  }
  respond_error(reply, Error{ErrorCode::kNotFound,
                             fmt::format("The model `{}` does not exist.", name), "model"});
}

void Service::health(net::HttpRequest, Reply reply) {
  if (draining_)
    return respond_error(reply, Error{ErrorCode::kUnavailable, "the server is shutting down", {}});
  respond(reply, {200, "text/plain", "", {}});
}

void Service::version(net::HttpRequest, Reply reply) {
  std::string body;
  json::JsonWriter w(body);
  w.begin_object();
  w.member("version", kVersion);
  w.member("engine", std::string_view("saccade"));
  w.end_object();
  respond(reply, json_response(std::move(body)));
}

void Service::metrics(net::HttpRequest, Reply reply) {
  respond(reply,
          {200, "text/plain; version=0.0.4; charset=utf-8", metrics_.render(preparing_), {}});
}

void Service::reset_prefix_cache(net::HttpRequest, Reply reply) {
  if (!engine_.reset_prefix_cache()) {
    return respond_error(
        reply,
        Error{ErrorCode::kUnavailable, "the prefix cache is in use by running requests", {}});
  }
  respond(reply, {200, "text/plain", "", {}});
}

void Service::reset_mm_cache(net::HttpRequest, Reply reply) {
  engine_.reset_mm_cache();
  respond(reply, {200, "text/plain", "", {}});
}

void Service::no_profiler(net::HttpRequest, Reply reply) {
  respond_error(reply,
                Error{ErrorCode::kUnsupported, "this server has no profiler to start or stop", {}});
}

void Service::after_step() {
  if (writes_.empty()) return;
  net::write_all(std::exchange(writes_, {}));
}

}  // namespace saccade::serve
