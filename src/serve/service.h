// The OpenAI API over an engine: routes, checks, and the way of a request from bytes to an answer.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/worker_pool.h"
#include "engine/engine.h"
#include "net/http_server.h"
#include "serve/answer.h"
#include "serve/request_builder.h"
#include "serve/settings.h"

namespace saccade::serve {

class MetricsPage;

// Where an answer goes, the headers (CORS) that it carries whatever it is, and when its request had
// been read: waiting for a worker is the server's time.
struct Reply {
  net::Responder to;
  std::vector<std::pair<std::string, std::string>> headers;
  Nanos arrival = 0;
};

// handle() runs on I/O threads and never blocks; jobs run on the worker pool; deltas come on the
// engine thread.
class Service {
 public:
  Service(const ServeSettings& settings, const Model& model, RequestBuilder& builder,
          Engine& engine, MetricsPage& metrics, const Clock& clock);
  ~Service();

  void handle(net::HttpRequest request, net::Responder responder);

  // From now on new work is 503; what runs goes on.
  void start_draining() { draining_ = true; }
  // Answers that are not complete.
  std::size_t unfinished() const { return unfinished_; }
  // Requests between arrival and the engine.
  std::size_t preparing() const { return preparing_; }

 private:
  using Method = void (Service::*)(net::HttpRequest, Reply);
  struct Route {
    std::string_view method;
    std::string_view path;
    Method handler;
    bool needs_key;
    bool is_work;  // refused while draining; done on a worker
  };
  static const std::vector<Route>& routes();

  void dispatch(const Route& route, net::HttpRequest request, Reply reply);
  void post_job(const Route& route, net::HttpRequest request, Reply reply);

  void chat(net::HttpRequest request, Reply reply);
  void completions(net::HttpRequest request, Reply reply);
  void tokenize(net::HttpRequest request, Reply reply);
  void detokenize(net::HttpRequest request, Reply reply);
  void models(net::HttpRequest request, Reply reply);
  void one_model(net::HttpRequest request, Reply reply);
  void health(net::HttpRequest request, Reply reply);
  void version(net::HttpRequest request, Reply reply);
  void metrics(net::HttpRequest request, Reply reply);
  void reset_prefix_cache(net::HttpRequest request, Reply reply);
  void reset_mm_cache(net::HttpRequest request, Reply reply);
  void no_profiler(net::HttpRequest request, Reply reply);

  Result<void> try_chat(const net::HttpRequest& request, const Reply& reply);
  Result<void> try_completions(const net::HttpRequest& request, const Reply& reply);
  Result<void> submit(const std::shared_ptr<Answer>& answer, std::vector<Request> requests);
  Result<void> check_model(const std::string& name) const;
  bool authorised(const net::HttpRequest& request) const;
  void respond_error(const Reply& reply, const Error& error) const;
  void respond(const Reply& reply, net::HttpResponse response) const;
  std::vector<std::pair<std::string, std::string>> cors_headers(std::string_view origin) const;
  void warn_unknown(const std::vector<std::string>& names);
  void watch(const std::shared_ptr<Answer>& answer, const Reply& reply);
  api::AnswerHead head(std::string_view prefix, const std::string& request_id,
                       const std::string& model) const;
  std::vector<api::ModelCard> cards() const;
  void after_step();

  const ServeSettings& settings_;
  const Model& model_;
  RequestBuilder& builder_;
  Engine& engine_;
  MetricsPage& metrics_;
  const Clock& clock_;
  const std::int64_t started_at_;         // Unix seconds
  std::vector<net::StreamWrite> writes_;  // engine thread: this step's events
  std::atomic<bool> draining_ = false;
  std::atomic<std::size_t> unfinished_ = 0;
  std::atomic<std::size_t> preparing_ = 0;
  std::atomic<std::size_t> preparing_bytes_ = 0;
  mutable std::atomic<std::uint64_t> next_answer_ = 0;
  std::mutex mutex_;
  std::unordered_set<std::string> warned_;  // guarded by mutex_: unknown fields already logged
  WorkerPool workers_;                      // last: its jobs use everything above
};

}  // namespace saccade::serve
