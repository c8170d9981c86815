// From a request on an I/O thread to its handler: routes, API keys, CORS, the worker pool and its
// bounds, and the shape of every answer that is not a stream. Knows no model.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "api/answers/responses.h"
#include "api/pages/error_table.h"
#include "api/pages/server_info.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/threads/worker_pool.h"
#include "net/server/http_server.h"
#include "serve/settings.h"

namespace saccade::serve {

// Where an answer goes, the headers (CORS) that it carries whatever it is, and when its request had
// been read: waiting for a worker is the server's time.
struct Reply {
  net::Responder to;
  std::vector<std::pair<std::string, std::string>> headers;
  Nanos arrival = 0;
  std::uint64_t client = 0;               // client_of() its request
  std::shared_ptr<const void> preparing;  // of work: while a copy lives, it counts as preparing
  api::ErrorShape errors = api::ErrorShape::kOpenAi;
};

net::HttpResponse json_response(std::string body, int status = 200);

// The segment of `path` at the "{id}" of `pattern`; empty where it is not of that form.
std::string_view segment_of(std::string_view pattern, std::string_view path);

// handle() runs on I/O threads and never blocks; jobs run on the worker pool. Its owner declares it
// last: jobs use everything else.
class Router {
 public:
  using Handler = std::function<void(net::HttpRequest, Reply)>;
  // A handler's answer: a body of JSON, or the error.
  using JsonHandler = std::function<Result<std::string>(const net::HttpRequest&)>;
  struct Route {
    std::string_view method;
    // One that ends in "/" takes everything below it, but for "/" itself; "{id}" any segment.
    std::string_view path;
    Handler handler;
    bool needs_key = false;
    bool is_work = false;  // refused while draining; done on a worker
    api::ErrorShape errors = api::ErrorShape::kOpenAi;
    bool is_refusal = false;  // of another kind of model
  };

  Router(const ServeSettings& settings, const Clock& clock);

  // Before the first handle().
  void add(Route route) { routes_.push_back(std::move(route)); }
  void add_json(std::string_view method, std::string_view path, bool is_work, JsonHandler handler);
  // POST to a member function of `service`, on a worker; an error that it returns is the answer.
  template <typename Service>
  void add_work(std::string_view path, Service& service,
                Result<void> (Service::*handler)(const net::HttpRequest&, const Reply&),
                api::ErrorShape errors = api::ErrorShape::kOpenAi) {
    add({"POST", path,
         [this, &service, handler](const net::HttpRequest& request, const Reply& reply) {
           const auto done = (service.*handler)(request, reply);
           if (!done) respond_error(reply, done.error());
         },
         true, true, errors});
  }
  // GET /v1/models, /v1/models/{id}, /health, /ping, /version, /openapi.json (all routes there
  // are).
  void add_status_routes(std::function<std::vector<api::ModelCard>()> cards);
  // What routers in front look for: GET /server_info, /model_info and their get_ names, /load,
  // /v1/loads.
  void add_info_routes(const api::ServerInfo& info, std::function<api::ServerLoad()> load);
  // GET /metrics: Prometheus text.
  void add_metrics(std::function<std::string()> page);
  // Endpoints of another kind of model, as vLLM answers them: "Chat Completions".
  void add_refusal(std::string_view path, std::string_view api_name,
                   api::ErrorShape errors = api::ErrorShape::kOpenAi);

  // At the header, before the body is read: what handle() would refuse whatever the body says is
  // refused here, and the body's bytes are reserved.
  net::HttpAdmission admit(const net::HttpRequest& head, std::optional<std::uint64_t> length);
  void handle(net::HttpRequest request, net::Responder responder);

  // The rest of a request's preparation, when its media are there: `job` runs on a worker in the
  // bulk lane, unless the client has left.
  void resume(const Reply& reply, std::function<void()> job);

  // From now on new work is 503; what runs goes on.
  void start_draining() { draining_ = true; }
  // Requests between arrival and the engine.
  std::size_t preparing() const { return preparing_; }
  // Of bodies and media, from a request's header to its end.
  const ByteBudget& held_bytes() const { return held_bytes_; }

  void respond(const Reply& reply, net::HttpResponse response) const;
  void respond(const Reply& reply, Result<std::string> json) const;
  void respond_error(const Reply& reply, const Error& error) const;
  // The same, to be tried again after so many seconds.
  void respond_later(const Reply& reply, const Error& error, std::int64_t seconds) const;
  // Models that requests may name besides the settings'. Before the first handle().
  void set_more_models(std::function<bool(const std::string&)> has) {
    more_models_ = std::move(has);
  }
  Result<void> check_model(const std::string& name) const;
  // Logs each name once.
  void warn_unknown(const std::vector<std::string>& names);
  // A fresh id, or the client's own behind the prefix.
  api::AnswerHead head(std::string_view prefix, const std::string& request_id,
                       const std::string& model) const;

 private:
  // The route of a request, or what it is answered without one.
  struct Choice {
    const Route* route = nullptr;
    net::HttpResponse answer;
  };
  Choice choose(const net::HttpRequest& request);
  void post_job(const Route& route, net::HttpRequest request, Reply reply);
  void guarded(std::string_view what, const Reply& reply, const std::function<void()>& work);
  std::string described() const;
  std::string request_id(std::string_view given) const;
  bool allows(const net::HttpRequest& request) const;
  bool named_as_host(const net::HttpRequest& request) const;
  net::HttpResponse origin_refusal(std::string_view origin);
  net::HttpResponse host_refusal(std::string_view host);
  net::HttpResponse refuse_page(const std::string& who, const std::string& why);
  Error over_budget(std::size_t more) const;
  net::HttpResponse error_response(const Error& error,
                                   api::ErrorShape shape = api::ErrorShape::kOpenAi,
                                   std::int64_t retry_after = 1) const;
  std::vector<std::pair<std::string, std::string>> cors_headers(
      const net::HttpRequest& request) const;

  const ServeSettings& settings_;
  const Clock& clock_;
  std::vector<Route> routes_;
  std::function<bool(const std::string&)> more_models_;  // empty: there are none
  std::atomic<bool> draining_ = false;
  std::atomic<std::size_t> preparing_ = 0;
  ByteBudget held_bytes_;
  mutable std::atomic<std::uint64_t> next_answer_ = 0;
  std::mutex mutex_;
  std::unordered_set<std::string> warned_;  // guarded by mutex_: what has been logged once
  WorkerPool workers_;                      // last: its jobs use everything above
};

}  // namespace saccade::serve
