#include "serve/router.h"

#include <algorithm>
#include <memory>
#include <new>

#include "api/error_table.h"
#include "base/log.h"
#include "base/rng.h"
#include "serve/client_identity.h"
#include "serve/origin.h"

namespace saccade::serve {
namespace {

constexpr std::string_view kVersion = SACCADE_VERSION;
constexpr std::size_t kMostWarnings = 256;
constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::size_t kQuickBody = 64u << 10;  // bytes: parsed and tokenised in a few milliseconds

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

net::HttpResponse json_response(std::string body, int status) {
  return {status, "application/json", std::move(body), {}};
}

Router::Router(const ServeSettings& settings, const Clock& clock)
    : settings_(settings),
      clock_(clock),
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
  add_json("GET", "/v1/models", false, [cards](const net::HttpRequest&) -> Result<std::string> {
    return api::model_list(cards());
  });
  add_json("GET", kModelPrefix, false,
           [cards](const net::HttpRequest& request) -> Result<std::string> {
             const std::string name = request.path.substr(kModelPrefix.size());
             for (const api::ModelCard& card : cards()) {
               if (card.id == name) return api::model_card(card);
             }
             return fail(Error{ErrorCode::kNotFound,
                               fmt::format("The model `{}` does not exist.", name), "model"});
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
}

void Router::add_info_routes(const api::ServerInfo& said, std::function<api::ServerLoad()> load) {
  api::ServerInfo info = said;
  info.version = kVersion;
  info.model_path = settings_.model;
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
  answer("/v1/loads",
         [info, load = std::move(load)](const net::HttpRequest&) -> Result<std::string> {
           return api::server_loads(info, load());
         });
}

void Router::add_refusal(std::string_view path, std::string_view api_name) {
  add_json("POST", path, false, [api_name](const net::HttpRequest&) -> Result<std::string> {
    return fail(ErrorCode::kUnsupported, "The model does not support {} API", api_name);
  });
}

void Router::handle(net::HttpRequest request, net::Responder responder) {
  const std::string origin(request.header("origin"));
  Reply reply{std::move(responder),
              {{"Vary", "Origin"}},
              clock_.now(),
              client_of(given_key(request), request.peer),
              nullptr};
  // Not only unreadable answers: some requests are sent by browsers without asking first.
  if (!may_use(origin, request.header("host"), settings_.allowed_origins,
               !settings_.api_keys.empty())) {
    return refuse_origin(origin, reply);
  }
  if (!origin.empty()) reply.headers.emplace_back("Access-Control-Allow-Origin", origin);
  if (request.method == "OPTIONS") {
    net::HttpResponse preflight{200, "text/plain", "", {}};
    preflight.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                         {"Access-Control-Allow-Headers", "Authorization, *"},
                         {"Access-Control-Max-Age", "600"}};
    return respond(reply, std::move(preflight));
  }
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  bool path_known = false;
  for (const Route& route : routes_) {
    const bool meant = route.path.ends_with('/') ? request.path.starts_with(route.path)
                                                 : request.path == route.path;
    if (!meant) continue;
    path_known = true;
    if (route.method == method) return dispatch(route, std::move(request), std::move(reply));
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

void Router::dispatch(const Route& route, net::HttpRequest request, Reply reply) {
  if (route.needs_key && !authorised(request)) {
    return respond(
        reply, json_response(
                   api::error_body(401, "AuthenticationError",
                                   "the Authorization header carries no API key this server knows"),
                   401));
  }
  if (!route.is_work) return route.handler(std::move(request), std::move(reply));
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

void Router::post_job(const Route& route, net::HttpRequest request, Reply reply) {
  const auto refuse = [&] {
    respond_error(reply, Error{ErrorCode::kExhausted,
                               fmt::format("{} requests are being prepared, the limit is {}",
                                           preparing_.load(), settings_.max_preparing),
                               {}});
  };
  if (preparing_ >= settings_.max_preparing) return refuse();
  reply.preparing = std::make_shared<const Counted>(preparing_, 1);
  struct Job {
    net::HttpRequest request;
    Reply reply;
    Counted bytes;
  };
  // The body is moved, so its size is taken first.
  const std::size_t body_bytes = request.body.size();
  // A short text is quick; long bodies, and all media, must not hold it up.
  const auto lane = body_bytes > kQuickBody ? WorkerPool::Lane::kBulk : WorkerPool::Lane::kQuick;
  auto job =
      std::shared_ptr<Job>(new Job{std::move(request), reply, {preparing_bytes_, body_bytes}});
  const bool taken = workers_.post(
      [this, &route, job] {
        if (job->reply.to.disconnected()) return;
        guarded(route.path, job->reply,
                [&] { route.handler(std::move(job->request), job->reply); });
      },
      lane);
  if (!taken) refuse();
}

void Router::go_on(const Reply& reply, std::function<void()> job) {
  // Never refused for room: what prepares is counted, and has one job at a time. A pool that is
  // ending drops it, and with it the reply.
  const bool taken = workers_.post(
      [this, reply, job = std::move(job)] {
        if (!reply.to.disconnected()) guarded("media", reply, job);
      },
      WorkerPool::Lane::kBulk);
  if (!taken)
    respond_error(reply, Error{ErrorCode::kUnavailable, "the server is shutting down", {}});
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

// What the Authorization header brings; empty where no keys are asked for.
std::string_view Router::given_key(const net::HttpRequest& request) const {
  if (settings_.api_keys.empty()) return {};
  std::string_view given = request.header("authorization");
  // The scheme's case does not matter (RFC 9110 11.1), nor how many blanks follow it.
  constexpr std::string_view kBearer = "bearer ";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; };
  if (given.size() >= kBearer.size() && std::equal(kBearer.begin(), kBearer.end(), given.begin(),
                                                   [&](char b, char a) { return same(a, b); })) {
    given.remove_prefix(kBearer.size());
    given.remove_prefix(std::min(given.find_first_not_of(' '), given.size()));
  }
  return given;
}

bool Router::authorised(const net::HttpRequest& request) const {
  if (settings_.api_keys.empty()) return true;
  const std::string_view given = given_key(request);
  bool found = false;
  for (const auto& key : settings_.api_keys) found = equal_in_constant_time(given, key) || found;
  return found;
}

void Router::refuse_origin(const std::string& origin, const Reply& reply) {
  const std::string why =
      fmt::format("pages of {} may not use this server: start it with --allowed-origins",
                  origin.substr(0, 200));
  {
    const std::lock_guard lock(mutex_);
    if (warned_.size() < kMostWarnings && warned_.insert("origin " + origin.substr(0, 200)).second)
      log::warning("{} (said once)", why);
  }
  respond(reply, json_response(api::error_body(403, "PermissionDeniedError", why), 403));
}

void Router::respond(const Reply& reply, net::HttpResponse response) const {
  response.headers.insert(response.headers.end(), reply.headers.begin(), reply.headers.end());
  reply.to.respond(std::move(response));
}

void Router::respond(const Reply& reply, Result<std::string> json) const {
  if (!json) return respond_error(reply, json.error());
  respond(reply, json_response(*std::move(json)));
}

void Router::respond_error(const Reply& reply, const Error& error) const {
  net::HttpResponse response =
      json_response(api::error_body(error), api::kind_of(error.code).status);
  if (error.code == ErrorCode::kExhausted || error.code == ErrorCode::kUnavailable) {
    response.headers.emplace_back("Retry-After", "1");
  }
  respond(reply, std::move(response));
}

Result<void> Router::check_model(const std::string& name) const {
  const auto& names = settings_.served_model_name;
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return {};
  return fail(Error{ErrorCode::kNotFound,
                    fmt::format("The model `{}` does not exist.", name.substr(0, 256)), "model"});
}

void Router::warn_unknown(const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  for (const auto& name : names) {
    const std::string shown = name.substr(0, 64);
    if (warned_.size() < kMostWarnings && warned_.insert(shown).second)
      log::warning("request field '{}' is not known and has no effect (said once)", shown);
  }
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
