#include "hub/hub_client.h"

#include <boost/json/array.hpp>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "base/json.h"

namespace saccade::hub {
namespace {

constexpr int kMaxRedirects = 8;

bool same_host(const net::Url& a, const net::Url& b) {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::string text_of(const net::Url& url) {
  return fmt::format("{}://{}:{}{}", url.scheme, url.host, url.port, url.path);
}

Result<net::Url> resolve(const net::Url& from, std::string_view location) {
  if (!location.starts_with('/')) return net::parse_url(location);
  net::Url url = from;
  url.path = location;
  return url;
}

std::string_view bare_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"') etag = etag.substr(1, etag.size() - 2);
  return etag;
}

Result<void> check_status(int status, const std::string& what) {
  if (status >= 200 && status < 300) return {};
  if (status == 401 || status == 403)
    return fail(ErrorCode::kDenied, "{}: status {}; a private or gated model needs HF_TOKEN", what,
                status);
  if (status == 404) return fail(ErrorCode::kNotFound, "{}: the hub does not have it", what);
  return fail(ErrorCode::kUnavailable, "{}: status {}", what, status);
}

// A file's name becomes the name of a link on disk and a part of a URL.
bool is_plain_name(std::string_view name) {
  if (name.empty() || name.front() == '.' || name.size() > 200) return false;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) return false;
  }
  return true;
}

// Of a few folders and a file.
bool is_plain_path(std::string_view path) {
  constexpr int kMaxFolders = 3;
  for (int folder = 0; folder <= kMaxFolders; ++folder) {
    const std::size_t slash = path.find('/');
    if (slash == std::string_view::npos) return is_plain_name(path);
    if (!is_plain_name(path.substr(0, slash))) return false;
    path.remove_prefix(slash + 1);
  }
  return false;
}

}  // namespace

Result<HubClient> HubClient::create(const std::string& endpoint, std::string token,
                                    const std::string& ca_file, Nanos stall_timeout) {
  HubClient hub;
  TRY(hub.endpoint_, net::parse_url(endpoint));
  while (hub.endpoint_.path.ends_with('/')) hub.endpoint_.path.pop_back();
  hub.token_ = std::move(token);
  hub.stall_timeout_ = stall_timeout;
  net::HttpClientSettings settings;
  settings.ca_file = ca_file;
  settings.environment_proxies = true;
  settings.max_body_bytes = std::size_t{64} << 20;
  TRY(hub.client_, net::HttpClient::create(settings));
  return hub;
}

net::ClientRequest HubClient::request(const char* method, net::Url url, bool with_token) const {
  net::ClientRequest request;
  request.method = method;
  request.url = std::move(url);
  request.headers.emplace_back("user-agent", "saccade");
  if (with_token && !token_.empty())
    request.headers.emplace_back("authorization", "Bearer " + token_);
  return request;
}

// Follows redirects; those to another host only with `leave_host`. `end` is where it stopped.
Result<net::ClientResponse> HubClient::follow(const char* method, net::Url url, bool leave_host,
                                              net::Url* end) {
  const SteadyClock clock;
  for (int redirect = 0; redirect <= kMaxRedirects; ++redirect) {
    net::ClientRequest next = request(method, url, same_host(url, endpoint_));
    next.deadline = clock.now() + stall_timeout_;
    auto response = client_->send(std::move(next));
    if (!response) return fail_within(text_of(url), std::move(response).error());
    *end = url;
    if (!is_redirect(response->status)) return response;
    TRY(net::Url target, resolve(url, response->header("location")));
    if (!same_host(target, url) && !leave_host) {
      *end = target;
      return response;
    }
    url = std::move(target);
  }
  return fail(ErrorCode::kUnavailable, "{}: more than {} redirects", text_of(url), kMaxRedirects);
}

Result<HubClient::Revision> HubClient::list(const std::string& repository,
                                            const std::string& revision) {
  net::Url url = endpoint_;
  url.path += "/api/models/" + repository + "/revision/" + revision;
  net::Url end;
  TRY(const net::ClientResponse response, follow("GET", url, true, &end));
  TRY_DO(check_status(response.status, text_of(url)));
  TRY(const json::value parsed, json::parse(response.body));
  if (!parsed.is_object()) return fail(ErrorCode::kUnavailable, "{}: no object", text_of(url));
  Revision found;
  TRY(found.commit, json::get_string(parsed.get_object(), "sha"));
  if (!is_plain_name(found.commit))
    return fail(ErrorCode::kUnavailable, "{}: sha is \"{}\"", text_of(url), found.commit);
  const json::value* siblings = json::find(parsed.get_object(), "siblings");
  if (siblings == nullptr || !siblings->is_array())
    return fail(ErrorCode::kUnavailable, "{}: no list of files", text_of(url));
  for (const json::value& sibling : siblings->get_array()) {
    if (!sibling.is_object()) continue;
    const json::value* name = json::find(sibling.get_object(), "rfilename");
    // Names with odd characters are none that a checkpoint is made of.
    if (name != nullptr && name->is_string() && is_plain_path(name->get_string()))
      found.files.emplace_back(name->get_string());
  }
  return found;
}

Result<HubFile> HubClient::look_up(const std::string& repository, const std::string& commit,
                                   const std::string& file) {
  net::Url url = endpoint_;
  url.path += "/" + repository + "/resolve/" + commit + "/" + file;
  HubFile found;
  TRY(const net::ClientResponse response, follow("HEAD", url, false, &found.location));
  if (!is_redirect(response.status)) TRY_DO(check_status(response.status, text_of(url)));
  found.with_token = same_host(found.location, endpoint_);
  const std::string_view linked = response.header("x-linked-etag");
  found.etag = bare_etag(linked.empty() ? response.header("etag") : linked);
  std::string_view size = response.header("x-linked-size");
  if (size.empty()) size = response.header("content-length");
  if (!is_plain_name(found.etag))
    return fail(ErrorCode::kUnavailable, "{}: no usable ETag", text_of(url));
  if (std::from_chars(size.data(), size.data() + size.size(), found.size).ec != std::errc())
    return fail(ErrorCode::kUnavailable, "{}: no size", text_of(url));
  return found;
}

Result<void> HubClient::fetch(const HubFile& file, std::uint64_t offset,
                              const std::function<void(bool)>& begin,
                              const std::function<bool(std::string_view)>& receive) {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t received = 0;
    bool done = false;
    bool refused = false;  // `receive` stopped it
    net::ClientResponse response;
  } state;
  net::ClientRequest next = request("GET", file.location, file.with_token);
  if (offset > 0) next.headers.emplace_back("range", fmt::format("bytes={}-", offset));

  int status = 0;  // of the client's thread
  net::ClientHandlers handlers;
  handlers.on_headers = [&](const net::ClientResponse& response) {
    status = response.status;
    if (status == 200 || status == 206) begin(status == 206 && offset > 0);
  };
  handlers.on_body = [&](std::string_view bytes, Nanos) {
    if (status != 200 && status != 206) return true;
    const bool more = receive(bytes);
    const std::scoped_lock lock(state.mutex);
    state.received += bytes.size();
    state.refused = !more;
    return more;
  };
  handlers.on_done = [&](net::ClientResponse response) {
    const std::scoped_lock lock(state.mutex);
    state.response = std::move(response);
    state.done = true;
    state.changed.notify_all();
  };
  const auto id = client_->start(std::move(next), std::move(handlers));
  bool stalled = false;
  {
    std::unique_lock lock(state.mutex);
    while (!state.done) {
      const std::uint64_t before = state.received;
      state.changed.wait_for(lock, std::chrono::nanoseconds(stall_timeout_));
      if (!state.done && !stalled && state.received == before) {
        stalled = true;
        lock.unlock();
        client_->cancel(id);
        lock.lock();
      }
    }
  }
  const std::string what = text_of(file.location);
  if (state.refused) return fail(ErrorCode::kCancelled, "{}: stopped", what);
  if (stalled)
    return fail(ErrorCode::kTimeout, "{}: nothing came for {:.0f} s", what,
                seconds(stall_timeout_));
  if (state.response.failure != net::ClientFailure::kNone)
    return fail(net::error_code_of(state.response.failure), "{}", state.response.error);
  if (status == 416)
    return fail(ErrorCode::kCorrupt, "{}: shorter than what was downloaded before", what);
  return check_status(status, what);
}

}  // namespace saccade::hub
