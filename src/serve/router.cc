#include "serve/router.h"

#include <algorithm>
#include <memory>

#include "api/error_table.h"
#include "base/log.h"
#include "base/rng.h"

namespace saccade::serve {
namespace {

constexpr std::string_view kVersion = SACCADE_VERSION;
constexpr std::string_view kModelPrefix = "/v1/models/";

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
         auto body = handler(request);
         if (!body) return respond_error(reply, body.error());
         respond(reply, json_response(*std::move(body)));
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

void Router::add_refusal(std::string_view path, std::string_view api_name) {
  add_json("POST", path, false, [api_name](const net::HttpRequest&) -> Result<std::string> {
    return fail(ErrorCode::kUnsupported, "The model does not support {} API", api_name);
  });
}

void Router::handle(net::HttpRequest request, net::Responder responder) {
  Reply reply{std::move(responder), cors_headers(request.header("origin")), clock_.now()};
  if (request.method == "OPTIONS") {
    net::HttpResponse preflight{200, "text/plain", "", {}};
    preflight.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                         {"Access-Control-Allow-Headers", "*"},
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
    if (!job->reply.to.disconnected()) route.handler(std::move(job->request), job->reply);
  });
  if (!taken) {
    respond_error(reply, Error{ErrorCode::kExhausted,
                               fmt::format("{} requests are being prepared, the limit is {}",
                                           workers_.queued(), settings_.max_preparing),
                               {}});
  }
}

bool Router::authorised(const net::HttpRequest& request) const {
  if (settings_.api_keys.empty()) return true;
  std::string_view given = request.header("authorization");
  constexpr std::string_view kBearer = "Bearer ";
  if (given.starts_with(kBearer)) given.remove_prefix(kBearer.size());
  bool found = false;
  for (const auto& key : settings_.api_keys) found = equal_in_constant_time(given, key) || found;
  return found;
}

std::vector<std::pair<std::string, std::string>> Router::cors_headers(
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

void Router::respond(const Reply& reply, net::HttpResponse response) const {
  response.headers.insert(response.headers.end(), reply.headers.begin(), reply.headers.end());
  reply.to.respond(std::move(response));
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
  return fail(
      Error{ErrorCode::kNotFound, fmt::format("The model `{}` does not exist.", name), "model"});
}

void Router::warn_unknown(const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  for (const auto& name : names) {
    if (warned_.size() < 256 && warned_.insert(name).second) {
      log::warning("request field '{}' is not known and has no effect (said once)",
                   name.substr(0, 64));
    }
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
