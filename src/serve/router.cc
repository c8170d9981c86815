#include "serve/router.h"

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "api/pages/draining.h"
#include "api/pages/openapi.h"
#include "base/log.h"
#include "net/authority.h"
#include "net/server/api_key.h"
#include "serve/client_identity.h"
#include "serve/handlers/origin.h"
#include "serve/handlers/path_hint.h"

namespace saccade::serve {
namespace {

constexpr std::string_view kVersion = SACCADE_VERSION;
constexpr std::size_t kMaxWarnings = 256;
constexpr std::size_t kMaxShown = 200;  // of a name in a message
constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::size_t kQuickBody = 64u << 10;  // bytes: parsed and tokenised in a few milliseconds

// A decrement that happens however the job ends.
class Counted {
 public:
  explicit Counted(std::atomic<std::size_t>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<std::size_t>& count_;
};

Error no_such_model(const std::string& name, const std::vector<std::string>& names) {
  std::string known;
  for (const std::string& each : names) known += (known.empty() ? "`" : ", `") + each + "`";
  return {ErrorCode::kNotFound,
          fmt::format("The model `{}` does not exist. This server answers to {}; GET /v1/models "
                      "lists adapters too.",
                      name.substr(0, 256), known),
          "model"};
}

std::string version_body() {
  std::string body;
  json::JsonWriter w(body);
  w.begin_object();
  w.member("version", kVersion);
  w.member("engine", std::string_view("saccade"));
  w.end_object();
  return body;
}

}  // namespace

std::string_view segment_of(std::string_view pattern, std::string_view path) {
  const std::size_t begin = pattern.find('{');
  const std::size_t end = pattern.find('}');
  if (begin == std::string_view::npos || end == std::string_view::npos) return {};
  const std::string_view after = pattern.substr(end + 1);
  if (path.size() <= begin + after.size() || !path.starts_with(pattern.substr(0, begin)) ||
      !path.ends_with(after))
    return {};
  const std::string_view segment = path.substr(begin, path.size() - begin - after.size());
  return segment.find('/') == std::string_view::npos ? segment : std::string_view();
}

net::HttpResponse json_response(std::string body, int status) {
  return {status, "application/json", std::move(body), {}};
}

Router::Router(const ServeSettings& settings, const Clock& clock)
    : settings_(settings),
      clock_(clock),
      held_bytes_(settings.max_preparing_bytes),
      workers_(settings.worker_threads, settings.max_preparing) {}

void Router::add_json(std::string_view method, std::string_view path, bool is_work,
                      JsonHandler handler) {
  add({method, path,
       [this, handler = std::move(handler)](const net::HttpRequest& request, const Reply& reply) {
         respond(reply, handler(request));
       },
       true, is_work});
}

void Router::add_status_routes(std::function<std::vector<api::ModelCard>()> cards) {
  for (const std::string_view path : {"/v1/models", "/models"})
    add_json("GET", path, false, [cards](const net::HttpRequest&) -> Result<std::string> {
      return api::model_list(cards());
    });
  add_json("GET", kModelPrefix, false,
           [this, cards](const net::HttpRequest& request) -> Result<std::string> {
             const std::string name = request.path.substr(kModelPrefix.size());
             if (name.empty()) return api::model_list(cards());
             for (const api::ModelCard& card : cards()) {
               if (card.id == name) return api::model_card(card);
             }
             TRY_DO(check_model(name));
             return fail(no_such_model(name, settings_.served_model_name));
           });
  const Handler health = [this](const net::HttpRequest&, const Reply& reply) {
    if (draining_)
      return respond_error(reply,
                           Error{ErrorCode::kUnavailable, "the server is shutting down", {}});
    respond(reply, {200, "text/plain", "", {}});
  };
  add({"GET", "/health", health});
  add({"GET", "/ping", health});
  add({"POST", "/ping", health});
  add({"GET", "/version", [this](const net::HttpRequest&, const Reply& reply) {
         respond(reply, json_response(version_body()));
       }});
  add({"GET", "/openapi.json", [this](const net::HttpRequest&, const Reply& reply) {
         respond(reply, json_response(described()));
       }});
}

void Router::add_info_routes(const api::ServerInfo& said, std::function<api::ServerLoad()> load) {
  api::ServerInfo info = said;
  info.version = kVersion;
  info.model_path = settings_.model;
  info.quantization = settings_.quantization.empty() ? "none" : settings_.quantization;
  info.kv_cache_dtype = name_in(kKvDtypes, settings_.kv_dtype);
  info.uuid_cache_bytes = static_cast<std::int64_t>(settings_.kept_image_bytes);
  info.mm_embeds = settings_.mm_embeds;
  info.tensor_parallel = settings_.tensor_parallel;
  info.served_model_name = settings_.served_model_name.front();
  const auto answer = [this](std::string_view path, JsonHandler handler) {
    add_json("GET", path, false, std::move(handler));
  };
  for (const std::string_view path : {"/server_info", "/get_server_info"})
    answer(path, [info](const net::HttpRequest&) -> Result<std::string> {
      return api::server_info(info);
    });
  for (const std::string_view path : {"/model_info", "/get_model_info"})
    answer(path, [info](const net::HttpRequest&) -> Result<std::string> {
      return api::model_info(info);
    });
  answer("/load", [load](const net::HttpRequest&) -> Result<std::string> {
    return api::server_load(load());
  });
  answer("/v1/loads",
         [info, load = std::move(load)](const net::HttpRequest&) -> Result<std::string> {
           return api::server_loads(info, load());
         });
}

void Router::add_metrics(std::function<std::string()> page) {
  add({"GET", "/metrics",
       [this, page = std::move(page)](const net::HttpRequest&, const Reply& reply) {
         respond(reply, {200, "text/plain; version=0.0.4; charset=utf-8", page(), {}});
       }});
}

void Router::add_refusal(std::string_view path, std::string_view api_name, api::ErrorShape errors) {
  add({"POST", path,
       [this, api_name](const net::HttpRequest&, const Reply& reply) {
         respond_error(reply, {ErrorCode::kUnsupported,
                               fmt::format("The model does not support {} API", api_name),
                               {}});
       },
       true, false, errors, true});
}

std::string Router::described() const {
  std::vector<api::OpenApiRoute> routes;
  for (const Route& route : routes_) {
    if (route.path == "/") continue;  // a page for people
    const bool needs_key = route.needs_key && !settings_.api_keys.empty();
    routes.push_back({route.method, route.path, needs_key, route.is_refusal});
  }
  return api::openapi_document(routes, kVersion);
}

// Not only unreadable answers: some requests are sent by browsers without asking first.
bool Router::allows(const net::HttpRequest& request) const {
  return may_use(request.header("origin"), request.header("host"), settings_.allowed_origins,
                 named_as_host(request));
}

Router::Choice Router::choose(const net::HttpRequest& request) {
  if (!allows(request)) return {nullptr, origin_refusal(request.header("origin"))};
  if (request.method == "OPTIONS") {
    net::HttpResponse preflight{200, "text/plain", "", {}};
    preflight.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
                         {"Access-Control-Allow-Headers", "Authorization, *"},
                         {"Access-Control-Max-Age", "600"}};
    return {nullptr, std::move(preflight)};
  }
  auto shape = api::ErrorShape::kOpenAi;
  const auto refused = [&shape](int status, std::string_view type, std::string_view why) {
    return Choice{nullptr, json_response(api::error_body(status, type, why, shape), status)};
  };
  const auto later = [&](ErrorCode code, std::string why) {
    return Choice{nullptr, error_response({code, std::move(why), {}}, shape)};
  };
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string taken;  // of this path, the methods
  for (const Route& route : routes_) {
    const bool meant =
        route.path.size() > 1 && route.path.ends_with('/')
            ? request.path.starts_with(route.path)
            : request.path == route.path || !segment_of(route.path, request.path).empty();
    if (!meant) continue;
    shape = route.errors;
    if (route.method != method) {
      taken += fmt::format("{}{}", taken.empty() ? "" : ", ", route.method);
      if (route.method == "GET") taken += ", HEAD";
      continue;
    }
    if (route.needs_key && !net::authorised(request, settings_.api_keys)) {
      return refused(401, "AuthenticationError",
                     "the Authorization header carries no API key this server knows");
    }
    if (route.needs_key && !named_as_host(request))
      return {nullptr, host_refusal(request.header("host"))};
    if (const std::string_view coding = request.header("content-encoding");
        !coding.empty() && coding != "identity") {
      return refused(415, "UnsupportedMediaTypeError",
                     fmt::format("Content-Encoding '{}' is not supported: send the body as it is",
                                 coding.substr(0, kMaxShown)));
    }
    if (const std::string_view type = request.header("content-type");
        type.starts_with("multipart/"))
      return refused(415, "UnsupportedMediaTypeError",
                     fmt::format("Content-Type '{}' is not supported: send JSON",
                                 type.substr(0, std::min(type.find(';'), kMaxShown))));
    if (!route.is_work) return {&route, {}};
    if (draining_) {
      Choice choice = later(ErrorCode::kUnavailable, "the server is shutting down");
      choice.answer.headers.emplace_back(api::kDrainingHeader, "1");
      return choice;
    }
    if (preparing_ >= settings_.max_preparing) {
      return later(ErrorCode::kExhausted,
                   fmt::format("{} requests are being prepared, the limit is {}", preparing_.load(),
                               settings_.max_preparing));
    }
    return {&route, {}};
  }
  if (!taken.empty()) {
    Choice choice = refused(405, "MethodNotAllowedError",
                            fmt::format("{} does not take {}", request.path, request.method));
    choice.answer.headers.emplace_back("Allow", std::move(taken));
    return choice;
  }
  std::string why = fmt::format("there is no {}", request.path);
  const std::string meant = path_meant(request.path, [this](std::string_view path) {
    return std::ranges::find(routes_, path, &Route::path) != routes_.end();
  });
  if (!meant.empty()) why += fmt::format("; did you mean {}?", meant);
  return {nullptr, error_response({ErrorCode::kNotFound, std::move(why), {}})};
}

net::HttpAdmission Router::admit(const net::HttpRequest& head,
                                 std::optional<std::uint64_t> length) {
  const auto refused = [&](net::HttpResponse answer) {
    const auto headers = cors_headers(head);
    answer.headers.insert(answer.headers.end(), headers.begin(), headers.end());
    return net::HttpAdmission{std::move(answer), {}};
  };
  Choice choice = choose(head);
  if (choice.route == nullptr) return refused(std::move(choice.answer));
  auto reserved = held_bytes_.reserve(static_cast<std::size_t>(length.value_or(0)));
  if (!reserved)
    return refused(error_response(over_budget(length.value_or(0)), choice.route->errors));
  return {std::nullopt, *std::move(reserved)};
}

Error Router::over_budget(std::size_t more) const {
  return {ErrorCode::kUnavailable,
          fmt::format("requests hold {} bytes of bodies and media, the limit is {} "
                      "(--max-preparing-bytes): no room for {} more",
                      held_bytes_.used(), held_bytes_.limit(), more),
          {}};
}

void Router::handle(net::HttpRequest request, net::Responder responder) {
  const bool keys = !settings_.api_keys.empty();
  Reply reply{std::move(responder), cors_headers(request), clock_.now(),
              client_of(keys ? net::given_key(request) : std::string_view(), request.peer),
              nullptr};
  if (settings_.request_id_headers)
    reply.headers.emplace_back("X-Request-Id", request_id(request.header("x-request-id")));
  Choice choice = choose(request);
  if (choice.route == nullptr) return respond(reply, std::move(choice.answer));
  reply.errors = choice.route->errors;
  if (!choice.route->is_work) return choice.route->handler(std::move(request), std::move(reply));
  post_job(*choice.route, std::move(request), std::move(reply));
}

void Router::post_job(const Route& route, net::HttpRequest request, Reply reply) {
  reply.preparing = std::make_shared<const Counted>(preparing_);
  struct Job {
    net::HttpRequest request;
    Reply reply;
  };
  // A short text is quick; long bodies, and all media, must not hold it up.
  const auto lane =
      request.body.size() > kQuickBody ? WorkerPool::Lane::kBulk : WorkerPool::Lane::kQuick;
  const auto job = std::make_shared<Job>(std::move(request), reply);
  const bool taken = workers_.post(
      [this, &route, job] {
        if (job->reply.to.disconnected()) return;
        guarded(route.path, job->reply,
                [&] { route.handler(std::move(job->request), job->reply); });
      },
      lane);
  if (!taken) {
    respond_error(reply, Error{ErrorCode::kExhausted,
                               fmt::format("{} requests wait for a worker, the limit is {}",
                                           workers_.queued(), settings_.max_preparing),
                               {}});
  }
}

void Router::resume(const Reply& reply, std::function<void()> job) {
  // Hardly ever refused for room: what prepares is counted, and has one job at a time.
  const bool taken = workers_.post(
      [this, reply, job = std::move(job)] {
        if (!reply.to.disconnected()) guarded("media", reply, job);
      },
      WorkerPool::Lane::kBulk);
  if (!taken)
    respond_error(reply, Error{ErrorCode::kUnavailable,
                               "no worker takes this request on: too many wait, or the server is "
                               "shutting down",
                               {}});
}

// The edge where exceptions end: what one request runs into is that request's alone.
void Router::guarded(std::string_view what, const Reply& reply, const std::function<void()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    log::error("{}: out of memory", what);
    respond_error(reply, Error{ErrorCode::kUnavailable,
                               "the server has not the memory that this request needs",
                               {}});
  } catch (const std::exception& error) {
    log::error("{}: {}", what, error.what());
    respond_error(reply, Error{ErrorCode::kInternal, "the request could not be prepared", {}});
  }
}

// Whoever brings a key is no page that happened to get here.
bool Router::named_as_host(const net::HttpRequest& request) const {
  if (!settings_.api_keys.empty()) return true;
  if (settings_.host.starts_with('/')) return true;  // no page has a name for a Unix socket
  const std::string_view host = request.header("host");
  const std::array own = {settings_.host, settings_.cluster.advertise};
  return net::names_this_server(host, settings_.allowed_hosts) || net::names_this_server(host, own);
}

net::HttpResponse Router::origin_refusal(std::string_view origin) {
  const std::string name(origin.substr(0, kMaxShown));
  return refuse_page(
      "origin " + name,
      fmt::format("pages of {} may not use this server: start it with --allowed-origins", name));
}

net::HttpResponse Router::host_refusal(std::string_view host) {
  const std::string name(host.substr(0, kMaxShown));
  return refuse_page(
      "host " + name,
      fmt::format("'{}' in Host is no name of this server: start it with --allowed-hosts, or with "
                  "--api-key",
                  name));
}

net::HttpResponse Router::refuse_page(const std::string& who, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (warned_.size() < kMaxWarnings && warned_.insert(who).second)
      log::warning("{} (said once)", why);
  }
  return json_response(api::error_body(403, "PermissionDeniedError", why), 403);
}

std::vector<std::pair<std::string, std::string>> Router::cors_headers(
    const net::HttpRequest& request) const {
  // Caches must not give one origin's answer to another.
  std::vector<std::pair<std::string, std::string>> headers = {{"Vary", "Origin"}};
  const std::string_view origin = request.header("origin");
  if (!origin.empty() && allows(request)) {
    headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
    if (settings_.allow_credentials)
      headers.emplace_back("Access-Control-Allow-Credentials", "true");
  }
  return headers;
}

void Router::respond(const Reply& reply, net::HttpResponse response) const {
  response.headers.insert(response.headers.end(), reply.headers.begin(), reply.headers.end());
  reply.to.respond(std::move(response));
}

void Router::respond(const Reply& reply, Result<std::string> json) const {
  if (!json) return respond_error(reply, json.error());
  respond(reply, json_response(*std::move(json)));
}

net::HttpResponse Router::error_response(const Error& error, api::ErrorShape shape,
                                         std::int64_t retry_after) const {
  net::HttpResponse response =
      json_response(api::error_body(error, shape), api::kind_of(error.code).status);
  if (api::kind_of(error.code).retry)
    response.headers.emplace_back("Retry-After", std::to_string(retry_after));
  return response;
}

void Router::respond_later(const Reply& reply, const Error& error, std::int64_t seconds) const {
  respond(reply, error_response(error, reply.errors, seconds));
}

void Router::respond_error(const Reply& reply, const Error& error) const {
  respond(reply, error_response(error, reply.errors));
}

Result<void> Router::check_model(const std::string& name) const {
  const auto& names = settings_.served_model_name;
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return {};
  if (more_models_ && more_models_(name)) return {};
  return fail(no_such_model(name, names));
}

void Router::warn_unknown(const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  for (const auto& name : names) {
    const std::string shown = name.substr(0, 64);
    if (warned_.size() < kMaxWarnings && warned_.insert(shown).second)
      log::warning("request field '{}' is not known and has no effect (said once)", shown);
  }
}

// The client's own, as far as it is fit for a header, or a new one.
std::string Router::request_id(std::string_view given) const {
  constexpr std::size_t kMaxBytes = 256;
  const bool fit = !given.empty() && given.size() <= kMaxBytes &&
                   std::ranges::all_of(given, [](char c) { return c > ' ' && c < 0x7f; });
  if (fit) return std::string(given);
  return fmt::format("{:016x}{:016x}", mix64(static_cast<std::uint64_t>(wall_clock_now())),
                     mix64(next_answer_++));
}

api::AnswerHead Router::head(std::string_view prefix, const std::string& request_id,
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

}  // namespace saccade::serve
