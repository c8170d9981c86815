#include "cluster/proxy/forwarder.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "api/pages/draining.h"
#include "api/pages/error_table.h"
#include "base/log.h"
#include "base/text/ascii.h"
#include "cluster/access.h"
#include "cluster/proxy/body_scan.h"
#include "cluster/proxy/passed_headers.h"
#include "cluster/proxy/pd_request.h"
#include "net/authority.h"
#include "net/server/api_key.h"
#include "net/server/request_parser.h"

namespace saccade::cluster {
namespace {

// Answers up to here are put together and written once; longer ones and streams go on as they come.
constexpr std::size_t kSmallAnswer = 64u << 10;
constexpr std::size_t kMaxServers = 256;  // given and found

constexpr std::string_view kDenied = "PermissionDeniedError";
constexpr std::string_view kStrangeHost =
    "Host is no name of this proxy: start it with --allowed-hosts, or with --api-key";

using Headers = std::vector<std::pair<std::string, std::string>>;

bool is_stream(const net::ClientResponse& response) {
  return response.header("content-type").starts_with("text/event-stream");
}

// Under whatever spelling of it.
bool same_place(const net::Url& a, const net::Url& b) {
  return a.scheme == b.scheme && a.port == b.port && a.path == b.path &&
         ascii::lower(a.host) == ascii::lower(b.host);
}

}  // namespace

// One request on its way. Touched by its client's thread alone once it has been given away.
struct Forwarder::Exchange {
  explicit Exchange(net::Responder to) : responder(std::move(to)) {}
  net::Responder responder;
  net::HttpClient* client = nullptr;
  std::string method;
  std::string target;
  Headers headers;
  net::SharedBytes body;  // null: none
  std::shared_ptr<ByteReservation> reserved;
  PdRequest predicted;
  Nanos read_at = 0;

  std::vector<bool> tried;
  std::size_t pd = 0;
  ServerPtr server;    // which is there
  bool given = false;  // to some server
  int retries = 0;
  std::atomic<net::HttpClient::RequestId> id{0};
  std::atomic<bool> gone{false};

  // Of the answer.
  bool begun = false;    // its head has gone to the client
  bool gathers = false;  // it is put together here
  bool is_stream = false;
  std::string last;  // bytes of a stream: whether it broke off inside an event
  net::HttpResponse gathered;
};

Result<std::unique_ptr<Forwarder>> Forwarder::create(const ProxySettings& settings) {
  if (settings.pds.empty() && settings.registry.empty())
    return fail(ErrorCode::kInvalid,
                "no server is given: saccade proxy --pd http://HOST:PORT,... or --registry URL");
  std::vector<ServerPtr> servers;
  for (const std::string& text : settings.pds) {
    auto url = net::parse_url(text);
    if (!url) return fail_within("--pd", std::move(url).error());
    while (url->path.ends_with('/')) url->path.pop_back();
    for (const ServerPtr& other : servers) {
      if (!same_place(other->url, *url)) continue;
      return fail(ErrorCode::kInvalid, "--pd: {} is given twice{}: it would be asked as two", text,
                  text == other->name ? "" : fmt::format(" (as {} too)", other->name));
    }
    servers.push_back(std::make_shared<const Server>(Server{*std::move(url), text, true}));
  }
  net::HttpClientSettings client;
  client.connect_timeout = settings.connect_timeout;
  client.verify_tls = settings.verify_pd_tls;
  client.ca_file = settings.pd_ca_file;
  std::vector<std::unique_ptr<net::HttpClient>> clients;
  for (int i = 0; i < std::max(1, settings.io_threads); ++i) {
    TRY(clients.emplace_back(), net::HttpClient::create(client));
  }
  return std::unique_ptr<Forwarder>(
      new Forwarder(settings, std::move(servers), std::move(clients)));
}

Forwarder::Forwarder(const ProxySettings& settings, std::vector<ServerPtr> servers,
                     std::vector<std::unique_ptr<net::HttpClient>> clients)
    : settings_(settings),
      held_bytes_(settings.max_held_bytes),
      servers_(std::move(servers)),
      table_([this] {
        std::vector<std::string> names;
        for (const ServerPtr& server : servers_) names.push_back(server->name);
        return names;
      }()),
      clients_(std::move(clients)) {}

Forwarder::~Forwarder() = default;

// As the servers do it, which see the proxy's own name for them alone.
bool Forwarder::named_as_host(const net::HttpRequest& request) const {
  if (!settings_.api_keys.empty()) return true;
  const std::string_view host = request.header("host");
  return net::names_this_server(host, settings_.allowed_hosts) ||
         net::names_this_server(host, std::span(&settings_.host, 1));
}

net::HttpAdmission Forwarder::admit(const net::HttpRequest& head,
                                    std::optional<std::uint64_t> length) {
  net::HttpAdmission admission;
  const auto refuse_body = [&](int status, std::string_view type, std::string_view why) {
    admission.refusal =
        net::HttpResponse{status, "application/json", api::error_body(status, type, why), {}};
  };
  if (!net::authorised(head, settings_.api_keys)) {
    refuse_body(401, "AuthenticationError", "Unauthorized");
  } else if (!named_as_host(head)) {
    refuse_body(403, kDenied, kStrangeHost);
  } else if (draining_) {
    refuse_body(503, "ServiceUnavailableError", "the proxy is shutting down");
  } else if (auto reserved = held_bytes_.reserve(static_cast<std::size_t>(length.value_or(0)))) {
    admission.body = *std::move(reserved);
  } else {
    refuse_body(503, "ServiceUnavailableError", "no room for this body beside those of others");
  }
  if (admission.refusal && admission.refusal->status == 503)
    admission.refusal->headers.emplace_back("Retry-After", "1");
  return admission;
}

void Forwarder::handle(net::HttpRequest request, net::Responder responder) {
  if (request.path == "/health") return responder.respond(health());
  if (request.path == "/metrics") return responder.respond(metrics());
  auto exchange = std::make_shared<Exchange>(std::move(responder));
  exchange->read_at = steady_now();
  {
    const std::lock_guard lock(mutex_);
    ++counters_.requests;
    retries_.requested();
    if (running_.size() >= max_running_) {
      std::erase_if(running_, [](const auto& each) { return each.expired(); });
      max_running_ = 2 * running_.size() + 64;
    }
    running_.push_back(exchange);
  }
  if (!net::authorised(request, settings_.api_keys))
    return refuse(*exchange, 401, "AuthenticationError", "Unauthorized");
  if (!named_as_host(request)) return refuse(*exchange, 403, kDenied, kStrangeHost);
  if (draining_)
    return refuse(*exchange, 503, "ServiceUnavailableError", "the proxy is shutting down");

  exchange->client = clients_[next_client_++ % clients_.size()].get();
  exchange->method = std::move(request.method);
  exchange->target = net::origin_form(request.target);
  exchange->reserved = std::move(request.reserved);
  exchange->headers = passed_on(request.headers);
  if (!settings_.pd_api_key.empty()) {
    std::erase_if(exchange->headers, [](const auto& each) {
      return each.first == "authorization" || each.first == "x-api-key";
    });
    exchange->headers.emplace_back("authorization", "Bearer " + settings_.pd_api_key);
  }
  const std::string_view before = request.header("x-forwarded-for");
  const std::string peer(host_of(request.peer));
  std::erase_if(exchange->headers,
                [](const auto& each) { return each.first == "x-forwarded-for"; });
  exchange->headers.emplace_back("x-forwarded-for",
                                 before.empty() ? peer : fmt::format("{}, {}", before, peer));
  if (!request.body.empty()) {
    BodyScan scan;
    scan.feed(request.body);
    exchange->predicted = predicted_request(scan.found(), request.header("x-session-id"));
    exchange->body = std::make_shared<const std::string>(std::move(request.body));
  }
  // Weak: the exchange owns the Responder, which owns this callback.
  exchange->responder.on_disconnect([this, weak = std::weak_ptr<Exchange>(exchange)] {
    const auto alive = weak.lock();
    if (!alive) return;
    alive->gone = true;
    if (alive->id != 0) alive->client->cancel(alive->id);
    const std::lock_guard lock(mutex_);
    ++counters_.left;
  });
  attempt(exchange);
}

// --- one attempt ---

void Forwarder::attempt(const ExchangePtr& exchange) {
  bool nobody = false;
  {
    const std::lock_guard lock(mutex_);
    const auto chosen = table_.choose(exchange->predicted, exchange->tried);
    nobody = !chosen;
    if (chosen) {
      exchange->pd = *chosen;
      exchange->server = servers_[*chosen];
      if (exchange->tried.size() <= *chosen) exchange->tried.resize(*chosen + 1);
      exchange->tried[*chosen] = true;
      table_.given(*chosen, exchange->predicted);
      if (!std::exchange(exchange->given, true))
        counters_.added_seconds += seconds(steady_now() - exchange->read_at);
    } else {
      ++counters_.no_server;
    }
  }
  if (nobody)
    return refuse(*exchange, 503, "ServiceUnavailableError", "no server takes requests now");

  net::ClientHandlers handlers;
  handlers.on_headers = [this, exchange](const net::ClientResponse& so_far) {
    on_head(*exchange, so_far);
  };
  handlers.on_body = [this, exchange](std::string_view bytes, Nanos) {
    return on_bytes(*exchange, bytes);
  };
  handlers.on_done = [this, exchange](net::ClientResponse response) {
    on_done(exchange, std::move(response));
  };
  exchange->id = exchange->client->start(request_for(*exchange), std::move(handlers));
  // Who left, or was to be told, before there was something to cancel.
  if (exchange->gone || ended_) exchange->client->cancel(exchange->id);
}

net::ClientRequest Forwarder::request_for(const Exchange& exchange) const {
  net::ClientRequest request;
  request.method = exchange.method;
  request.url = exchange.server->url;
  request.url.path += exchange.target;
  request.headers = exchange.headers;
  if (exchange.body != nullptr) request.body.push_back(exchange.body);
  return request;
}

void Forwarder::on_head(Exchange& exchange, const net::ClientResponse& so_far) {
  exchange.is_stream = is_stream(so_far);
  Headers headers = passed_on(so_far.headers);
  std::optional<std::uint64_t> length;
  if (const std::string_view text = so_far.header("content-length"); !text.empty())
    length = std::strtoull(std::string(text).c_str(), nullptr, 10);
  // What may still become another server's answer is kept back.
  exchange.gathers =
      !exchange.is_stream && ((length && *length <= kSmallAnswer) || so_far.status == 503);
  if (exchange.gathers) {
    exchange.gathered = {so_far.status, "", {}, std::move(headers)};
    return;
  }
  exchange.begun = true;
  exchange.body.reset();  // there is no other attempt
  exchange.reserved.reset();
  exchange.responder.start_answer({so_far.status, std::move(headers), length});
}

bool Forwarder::on_bytes(Exchange& exchange, std::string_view bytes) {
  if (exchange.gone) return false;
  if (exchange.gathers) {
    if (exchange.gathered.body.size() + bytes.size() > kSmallAnswer) return false;
    exchange.gathered.body += bytes;
    return true;
  }
  if (exchange.is_stream) {
    constexpr std::size_t kEnd = 2;  // of an event: "\n\n"
    exchange.last += bytes.substr(bytes.size() - std::min(bytes.size(), kEnd));
    exchange.last.erase(0, exchange.last.size() - std::min(exchange.last.size(), kEnd));
  }
  exchange.responder.write(std::string(bytes));
  return true;
}

void Forwarder::on_done(const ExchangePtr& exchange, net::ClientResponse response) {
  const bool answered = response.failure == net::ClientFailure::kNone;
  {
    const std::lock_guard lock(mutex_);
    table_.done(exchange->pd, exchange->predicted);
    if (answered) {
      table_.answered(exchange->pd);
      if (response.status == 503) table_.refused(exchange->pd);
    } else if (!exchange->gone && response.failure != net::ClientFailure::kCancelled) {
      table_.failed(exchange->pd);
    }
  }
  if (exchange->gone) return;
  if (!answered) {
    const bool sent = response.failure != net::ClientFailure::kConnect;
    if (exchange->begun || !try_again(exchange, sent)) broke_off(*exchange, response);
    return;
  }
  if (!exchange->gathers) {
    exchange->responder.end_stream();
    const std::lock_guard lock(mutex_);
    ++counters_.answers[std::clamp(response.status / 100, 0, 5)];
    return;
  }
  // A server that ends has not begun with it, so asking the next is no retry.
  const bool begun = response.header(api::kDrainingHeader).empty();
  if (response.status == 503 && try_again(exchange, begun)) return;
  answer(*exchange, std::move(exchange->gathered));
}

// False: it stays with what came.
bool Forwarder::try_again(const ExchangePtr& exchange, bool sent) {
  if (ended_ || (sent && exchange->retries >= settings_.max_retries)) return false;
  {
    const std::lock_guard lock(mutex_);
    if (!table_.choose(exchange->predicted, exchange->tried)) return false;
    if (sent && !retries_.take()) {
      ++counters_.retries_denied;
      return false;
    }
    ++counters_.retries;
  }
  exchange->retries += sent ? 1 : 0;
  exchange->gathers = false;
  attempt(exchange);
  return true;
}

void Forwarder::end_answers() {
  ended_ = true;
  std::vector<std::weak_ptr<Exchange>> running;
  {
    const std::lock_guard lock(mutex_);
    running.swap(running_);
  }
  for (const auto& each : running) {
    const ExchangePtr alive = each.lock();
    if (alive && alive->id != 0) alive->client->cancel(alive->id);
  }
}

void Forwarder::broke_off(Exchange& exchange, const net::ClientResponse& response) {
  constexpr std::string_view kEnded = "the proxy ends, and the time for running answers is over";
  const bool timeout = response.failure == net::ClientFailure::kTimeout;
  if (!exchange.begun) {
    if (ended_) return refuse(exchange, 503, "ServiceUnavailableError", kEnded);
    log::warning("{}: {}", exchange.server->name, response.error);
    return refuse(exchange, timeout ? 504 : 502, "BadGatewayError",
                  fmt::format("the server did not answer: {}", name_of(response.failure)));
  }
  log::warning("{}: an answer broke off: {}", exchange.server->name, response.error);
  {
    const std::lock_guard lock(mutex_);
    ++counters_.cut;
  }
  if (!exchange.is_stream) return exchange.responder.cut();
  // A stream has no other place for it.
  const std::string end = exchange.last.ends_with("\n\n") ? "" : "\n\n";
  const std::string error =
      ended_ ? api::error_body(503, "ServiceUnavailableError", kEnded)
             : api::error_body(502, "BadGatewayError", "the server broke off its answer");
  exchange.responder.write(end + "data: " + error + "\n\n");
  exchange.responder.end_stream();
}

// --- answers made here ---

void Forwarder::answer(Exchange& exchange, net::HttpResponse response) {
  {
    const std::lock_guard lock(mutex_);
    ++counters_.answers[std::clamp(response.status / 100, 0, 5)];
  }
  exchange.responder.respond(std::move(response));
}

void Forwarder::refuse(Exchange& exchange, int status, std::string_view type,
                       std::string_view message) {
  net::HttpResponse response{
      status, "application/json", api::error_body(status, type, message), {}};
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  answer(exchange, std::move(response));
}

net::HttpResponse Forwarder::health() const {
  const std::lock_guard lock(mutex_);
  const std::size_t usable = table_.usable();
  const bool well = usable > 0 && !draining_;
  return {well ? 200 : 503,
          "application/json",
          fmt::format(R"({{"status":"{}","servers":{},"usable":{}}})",
                      draining_    ? "draining"
                      : usable > 0 ? "ok"
                                   : "no server answers",
                      table_.present(), usable),
          {}};
}

net::HttpResponse Forwarder::metrics() const {
  // Before the lock: it waits for a thread that may be waiting for that lock, in found().
  const std::string more = more_metrics_ ? more_metrics_() : "";
  std::string text;
  const auto line = [&](std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text),
                   "# HELP saccade:proxy_{0} {2}\n# TYPE "
                   "saccade:proxy_{0} {1}\n",
                   name, type, help);
  };
  const auto value = [&](std::string_view name, std::string_view labels, double number) {
    fmt::format_to(std::back_inserter(text), "saccade:proxy_{}{} {}\n", name, labels, number);
  };
  const std::lock_guard lock(mutex_);
  const auto counter = [&](std::string_view name, std::string_view help, auto number) {
    line(name, "counter", help);
    value(name, "", static_cast<double>(number));
  };
  counter("requests_total", "Requests from clients.", counters_.requests);
  line("answers_total", "counter", "Answers to clients, by class of status code.");
  for (int i = 1; i < 6; ++i)
    value("answers_total", fmt::format("{{code=\"{}xx\"}}", i),
          static_cast<double>(counters_.answers[i]));
  counter("retries_total", "Retries.", counters_.retries);
  counter("retries_denied_total", "Retries that the retry budget did not allow.",
          counters_.retries_denied);
  counter("answers_cut_total", "Answers that broke off after their first byte.", counters_.cut);
  counter("clients_left_total", "Clients that disconnected before the end of their answer.",
          counters_.left);
  counter("no_server_total", "Requests for which no server was available.", counters_.no_server);
  counter("handling_seconds_total",
          "Seconds between receiving requests and sending them to a server.",
          counters_.added_seconds);
  line("held_bytes", "gauge", "Bytes of request bodies in memory.");
  value("held_bytes", "", static_cast<double>(held_bytes_.used()));
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help,
                        auto number) {
    line(name, type, help);
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (table_.at(i).state == PdState::kGone) continue;
      value(name, fmt::format("{{server=\"{}\"}}", table_.at(i).name),
            static_cast<double>(number(table_.at(i))));
    }
  };
  using Pd = PdTable::Pd;
  each("server_usable", "gauge", "1 for a server that gets new requests.",
       [](const Pd& pd) { return pd.state == PdState::kUsable ? 1 : 0; });
  each("server_requests", "gauge", "Requests in progress at a server.",
       [](const Pd& pd) { return pd.requests; });
  each("server_work_tokens", "gauge", "Predicted prompt tokens in progress at a server.",
       [](const Pd& pd) { return pd.work; });
  each("server_requests_total", "counter", "Requests sent to a server, retries included.",
       [](const Pd& pd) { return pd.given; });
  each("server_failures_total", "counter", "Requests to a server and health probes that failed.",
       [](const Pd& pd) { return pd.failures; });
  text += more;
  return {200, "text/plain; version=0.0.4; charset=utf-8", std::move(text), {}};
}

void Forwarder::probe() {
  std::vector<ServerPtr> servers;
  {
    const std::lock_guard lock(mutex_);
    servers = servers_;
  }
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (servers[i] == nullptr) continue;
    net::ClientRequest request;
    request.method = "GET";
    request.url = servers[i]->url;
    request.url.path += "/health";
    request.deadline = steady_now() + settings_.probe_timeout;
    net::ClientHandlers handlers;
    handlers.on_body = [](std::string_view, Nanos) { return true; };
    handlers.on_done = [this, i, server = servers[i]](const net::ClientResponse& response) {
      if (response.failure == net::ClientFailure::kCancelled) return;
      const bool answers = response.failure == net::ClientFailure::kNone;
      const std::lock_guard lock(mutex_);
      if (servers_[i] != server) return;  // another has its place
      const PdState before = table_.at(i).state;
      // Whoever has no such page is well too: an OpenAI-compatible server need not have one.
      table_.probed(i, answers, response.status == 503);
      const PdState after = table_.at(i).state;
      if (after == before) return;
      log::info("{}: {}", server->name,
                after == PdState::kUsable ? "takes requests"
                : after == PdState::kOut  ? "does not answer"
                                          : "takes no new requests");
    };
    clients_.front()->start(std::move(request), std::move(handlers));
  }
}

void Forwarder::found(const std::vector<std::string>& urls) {
  const std::lock_guard lock(mutex_);
  // One that answers is there, whatever a registry says that has lost its memory.
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const ServerPtr& server = servers_[i];
    if (server == nullptr || server->given || table_.at(i).state != PdState::kOut ||
        std::ranges::find(urls, server->name) != urls.end())
      continue;
    log::info("{} is not there any more", server->name);
    table_.remove(i);
    servers_[i] = nullptr;
  }
  for (const std::string& text : urls) {
    const bool known = std::ranges::any_of(servers_, [&](const ServerPtr& server) {
      return server != nullptr && server->name == text;
    });
    if (known || table_.present() >= kMaxServers) continue;
    auto url = net::parse_url(text);
    if (!url) continue;
    while (url->path.ends_with('/')) url->path.pop_back();
    const std::size_t place = table_.add(text);
    if (servers_.size() <= place) servers_.resize(place + 1);
    servers_[place] = std::make_shared<const Server>(Server{*std::move(url), text, false});
    log::info("{} has been found", text);
  }
}

}  // namespace saccade::cluster
