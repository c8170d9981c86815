#include "serve/media/http_media.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/text/ascii.h"
#include "net/authority.h"
#include "net/client/proxy_choice.h"
#include "serve/media/media_reference.h"
#include "serve/media/private_address.h"

namespace saccade::serve {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Over them transfers wait for their turn. A host that stalls takes its own share alone.
constexpr long kMaxConnections = 512;
constexpr long kMaxConnectionsOfHost = 64;
// Kept open for the next image of the same host; without it as many as there ever were at once.
constexpr long kKeptConnections = 8;
constexpr std::chrono::milliseconds kWatch{100};  // deadlines and cancelled requests

// Lower case, without a trailing dot or an IPv6 literal's brackets.
Result<std::string> host_of(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> handle(curl_url(), curl_url_cleanup);
  char* text = nullptr;
  if (handle == nullptr || curl_url_set(handle.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_get(handle.get(), CURLUPART_HOST, &text, CURLU_URLDECODE) != CURLUE_OK) {
    return fail(ErrorCode::kInvalid, "{} is not a URL", shortened(url));
  }
  std::string host = text;
  curl_free(text);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.ends_with('.')) host.pop_back();
  return ascii::lower(host);
}

// A domain allows itself and its subdomains; an address has none.
bool matches_domain(const std::string& host, std::string domain) {
  domain = ascii::lower(domain);
  if (host == domain) return true;
  return !domain.empty() && !net::is_address(host) && host.ends_with("." + domain);
}

Result<void> check_url(const std::string& url, const MediaSettings& settings) {
  if (settings.allowed_domains.empty()) {
    return fail(ErrorCode::kDenied,
                "{}: images are not fetched over HTTP by this server (--allowed-media-domains)",
                shortened(url));
  }
  if (!has_scheme(url, "http://") && !has_scheme(url, "https://")) {
    return fail(ErrorCode::kDenied, "{}: the scheme is not http or https", shortened(url));
  }
  TRY(const std::string host, host_of(url));
  for (const std::string& domain : settings.allowed_domains) {
    if (matches_domain(host, domain)) return {};
  }
  return fail(ErrorCode::kDenied, "{}: domain {} is not allowed (--allowed-media-domains)",
              shortened(url), host);
}

// The proxy that this URL is to go through; empty: none. An address that a proxy would be asked
// for is held to what is asked for without one.
Result<std::string> proxy_of(const std::string& url, const MediaSettings& settings) {
  if (!settings.environment_proxies) return std::string();
  TRY(const std::string host, host_of(url));
  const bool secure = has_scheme(url, "https://");
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> handle(curl_url(), curl_url_cleanup);
  char* text = nullptr;
  int port = secure ? 443 : 80;
  if (handle != nullptr && curl_url_set(handle.get(), CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      curl_url_get(handle.get(), CURLUPART_PORT, &text, 0) == CURLUE_OK) {
    port = std::atoi(text);
    curl_free(text);
  }
  std::string proxy = net::ProxyChoice::of_environment().proxy_of(secure ? "https" : "http", host,
                                                                  static_cast<std::uint16_t>(port));
  if (proxy.empty() || settings.allow_private_addresses || !net::is_address(host)) return proxy;
  sockaddr_in four{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  const bool is_four = inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1;
  if (!is_four) inet_pton(AF_INET6, host.c_str(), &six.sin6_addr);
  const auto* const address =
      is_four ? reinterpret_cast<const sockaddr*>(&four) : reinterpret_cast<const sockaddr*>(&six);
  if (is_private_address(*address, is_four ? sizeof four : sizeof six))
    return fail(ErrorCode::kDenied, "{}: {} is a private address", shortened(url), host);
  return proxy;
}

class Transfer;

// One order on its way.
struct Group {
  DownloadOrder order;
  HttpDownloads::Done done;
  SteadyTime deadline;
  std::vector<std::unique_ptr<Transfer>> transfers;
  std::vector<std::string> files;
  std::size_t bytes = 0;      // of all files, so far
  std::size_t remaining = 0;  // files
  std::optional<Error> failure;
};

// One item, hop after hop; libcurl's callbacks find it through their user pointer.
class Transfer {
 public:
  Transfer(const MediaSettings& settings, Group& group, std::size_t index)
      : settings_(settings),
        group_(group),
        index_(index),
        limit_(limit_of(settings, group.order.items[index].kind)),
        url_(group.order.items[index].url),
        curl_(curl_easy_init(), curl_easy_cleanup) {}

  CURL* handle() const { return curl_.get(); }
  Group& group() const { return group_; }
  const std::string& name() const { return group_.order.items[index_].name; }

  bool is_done() const { return done_; }
  Error timeout() const;

  // Sets the handle up for the present hop.
  Result<void> prepare();
  // The hop has ended. True when the file is there; false when there is another hop to prepare.
  Result<bool> finish(CURLcode code);

 private:
  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self);
  static curl_socket_t on_socket(void* self, curlsocktype purpose, curl_sockaddr* address);
  Error error_of(CURLcode code) const;

  const MediaSettings& settings_;
  Group& group_;
  std::size_t index_;
  MediaLimit limit_;
  std::string url_;    // of the present hop
  std::string proxy_;  // likewise; empty: none
  int redirects_ = 0;
  char reason_[CURL_ERROR_SIZE] = {};
  std::string body_;
  bool done_ = false;
  bool too_large_ = false;
  bool all_too_large_ = false;
  bool no_room_ = false;
  std::string refused_address_;
  // Last: it calls back with the rest.
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
};

std::size_t Transfer::on_body(char* data, std::size_t, std::size_t size, void* user) {
  auto& self = *static_cast<Transfer*>(user);
  self.too_large_ = size > self.limit_.bytes - self.body_.size();
  self.all_too_large_ = size > self.group_.order.max_bytes - self.group_.bytes;
  if (self.too_large_ || self.all_too_large_) return 0;
  const auto& reserved = self.group_.order.reserved;
  self.no_room_ = reserved && !reserved->grow(size);
  if (self.no_room_) return 0;
  try {
    self.body_.append(data, size);
  } catch (const std::bad_alloc&) {  // must not go through libcurl
    self.no_room_ = true;
    return 0;
  }
  self.group_.bytes += size;
  return size;
}

curl_socket_t Transfer::on_socket(void* user, curlsocktype, curl_sockaddr* address) {
  auto& self = *static_cast<Transfer*>(user);
  // With a proxy the address is that one's, which the operator has chosen.
  if (self.proxy_.empty() && !self.settings_.allow_private_addresses &&
      is_private_address(address->addr, address->addrlen)) {
    self.refused_address_ = address_text(address->addr, address->addrlen);
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

Result<void> Transfer::prepare() {
  TRY_DO(check_url(url_, settings_));
  TRY(proxy_, proxy_of(url_, settings_));
  CURL* curl = curl_.get();
  if (curl == nullptr) return fail(ErrorCode::kInternal, "libcurl gave no handle");
  group_.bytes -= body_.size();  // of a redirect
  body_.clear();
  curl_easy_setopt(curl, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(curl, CURLOPT_PRIVATE, this);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_PROXY, proxy_.c_str());
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "");  // NO_PROXY has been read
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  // A name that does not resolve must not hold the thread when its transfer is given up.
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "saccade");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason_);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(settings_.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(limit_.bytes));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, &Transfer::on_socket);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, this);
  return {};
}

Result<bool> Transfer::finish(CURLcode code) {
  if (code != CURLE_OK) return fail(error_of(code));
  long status = 0;
  curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 && status < 300) {
    group_.files[index_] = std::move(body_);
    done_ = true;
    return true;
  }
  char* redirect = nullptr;  // absolute
  curl_easy_getinfo(curl_.get(), CURLINFO_REDIRECT_URL, &redirect);
  if (status < 300 || status >= 400 || redirect == nullptr) {
    return fail(ErrorCode::kUndecodable, "{}: answered with HTTP status {}", shortened(url_),
                status);
  }
  if (redirects_++ == settings_.max_redirects) {
    return fail(ErrorCode::kUndecodable, "{}: over {} redirects",
                shortened(group_.order.items[index_].url), settings_.max_redirects);
  }
  url_ = redirect;
  return false;
}

Error Transfer::error_of(CURLcode code) const {
  const std::string name = shortened(url_);
  if (!refused_address_.empty()) {
    return {
        ErrorCode::kDenied, fmt::format("{}: {} is a private address", name, refused_address_), {}};
  }
  if (too_large_ || code == CURLE_FILESIZE_EXCEEDED) {
    return {ErrorCode::kTooLarge,
            fmt::format("{}: {} is over {} bytes{}", name, limit_.noun, limit_.bytes, limit_.flag),
            {}};
  }
  if (all_too_large_) {
    return {ErrorCode::kTooLarge,
            fmt::format("{}: with it the request's images and frames are over {} bytes", name,
                        group_.order.max_bytes),
            {}};
  }
  if (no_room_) {
    return {ErrorCode::kUnavailable,
            fmt::format("{}: no room for it beside the media of other requests "
                        "(--max-preparing-bytes)",
                        name),
            {}};
  }
  if (code == CURLE_OPERATION_TIMEDOUT) return timeout();
  return {ErrorCode::kUndecodable,
          fmt::format("{}: cannot be fetched: {}", name,
                      reason_[0] != '\0' ? reason_ : curl_easy_strerror(code)),
          {}};
}

Error Transfer::timeout() const {
  return {ErrorCode::kTimeout,
          fmt::format("{}: no image within {} ms, those beside it included (connecting: {} ms)",
                      shortened(url_), settings_.total_timeout.count(),
                      settings_.connect_timeout.count()),
          {}};
}

Error with_name(const std::string& name, Error error) {
  if (!name.empty()) error.message = name + ": " + error.message;
  return error;
}

}  // namespace

// Groups begin, go on and end on this thread alone; the inbox is what others see of it.
class HttpDownloads::Thread {
 public:
  explicit Thread(MediaSettings settings)
      : settings_(std::move(settings)), multi_(curl_multi_init(), curl_multi_cleanup) {
    curl_multi_setopt(multi_.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, kMaxConnections);
    curl_multi_setopt(multi_.get(), CURLMOPT_MAX_HOST_CONNECTIONS, kMaxConnectionsOfHost);
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, kKeptConnections);
    thread_ = std::thread([this] { run(); });
  }
  ~Thread() { stop(); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void start(DownloadOrder order, Done done) {
    auto group = std::make_unique<Group>();
    group->deadline = std::chrono::steady_clock::now() + settings_.total_timeout;
    group->remaining = order.items.size();
    group->files.resize(order.items.size());
    group->order = std::move(order);
    group->done = std::move(done);
    {
      const std::lock_guard lock(mutex_);
      if (!stopping_) inbox_.push_back(std::move(group));
    }
    if (group) return group->done(fail(shutting_down()));
    curl_multi_wakeup(multi_.get());
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    curl_multi_wakeup(multi_.get());
    if (thread_.joinable()) thread_.join();
  }

 private:
  static Error shutting_down() {
    return {ErrorCode::kUnavailable, "the server is shutting down", {}};
  }

  void run() {
    while (take_inbox()) {
      int running = 0;
      curl_multi_perform(multi_.get(), &running);
      int more = 0;
      while (CURLMsg* message = curl_multi_info_read(multi_.get(), &more)) {
        if (message->msg == CURLMSG_DONE) on_hop(message->easy_handle, message->data.result);
      }
      watch();
      end_groups();
      constexpr std::chrono::milliseconds kIdle{60'000};
      curl_multi_poll(multi_.get(), nullptr, 0,
                      static_cast<int>((groups_.empty() ? kIdle : kWatch).count()), nullptr);
    }
    for (const auto& group : groups_) fail_group(*group, shutting_down());
    end_groups();
  }

  // False when it is time to stop.
  bool take_inbox() {
    std::vector<std::unique_ptr<Group>> arrived;
    bool stopping = false;
    {
      const std::lock_guard lock(mutex_);
      arrived.swap(inbox_);
      stopping = stopping_;
    }
    for (auto& group : arrived) {
      groups_.push_back(std::move(group));
      begin(*groups_.back());
    }
    return !stopping;
  }

  void begin(Group& group) {
    for (std::size_t i = 0; i < group.order.items.size() && !group.failure; ++i) {
      Transfer& transfer =
          *group.transfers.emplace_back(std::make_unique<Transfer>(settings_, group, i));
      next_hop(transfer);
    }
  }

  void next_hop(Transfer& transfer) {
    auto prepared = transfer.prepare();
    if (!prepared)
      return fail_group(transfer.group(), with_name(transfer.name(), std::move(prepared).error()));
    curl_multi_add_handle(multi_.get(), transfer.handle());
  }

  void on_hop(CURL* handle, CURLcode code) {
    void* self = nullptr;
    curl_easy_getinfo(handle, CURLINFO_PRIVATE, &self);
    Transfer& transfer = *static_cast<Transfer*>(self);
    Group& group = transfer.group();
    curl_multi_remove_handle(multi_.get(), handle);
    if (group.failure) return;
    auto there = transfer.finish(code);
    if (!there) return fail_group(group, with_name(transfer.name(), std::move(there).error()));
    if (!*there) return next_hop(transfer);
    --group.remaining;
  }

  void watch() {
    const SteadyTime now = std::chrono::steady_clock::now();
    for (const auto& group : groups_) {
      if (group->order.cancelled && group->order.cancelled()) {
        fail_group(*group, {ErrorCode::kCancelled, "cancelled", {}});
      } else if (now > group->deadline && group->remaining > 0) {
        const auto late = std::ranges::find_if(
            group->transfers, [](const auto& transfer) { return !transfer->is_done(); });
        fail_group(*group, with_name((*late)->name(), (*late)->timeout()));
      }
    }
  }

  static void fail_group(Group& group, Error error) {
    if (!group.failure) group.failure = std::move(error);
  }

  void end_groups() {
    std::erase_if(groups_, [&](const std::unique_ptr<Group>& group) {
      if (!group->failure && group->remaining > 0) return false;
      // One that is not in the multi handle is left alone.
      for (const auto& transfer : group->transfers)
        curl_multi_remove_handle(multi_.get(), transfer->handle());
      group->transfers.clear();
      if (group->failure) {
        group->done(fail(*std::move(group->failure)));
      } else {
        group->done(std::move(group->files));
      }
      return true;
    });
  }

  const MediaSettings settings_;
  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi_;
  std::list<std::unique_ptr<Group>> groups_;  // after multi_: their handles go first
  std::mutex mutex_;
  std::vector<std::unique_ptr<Group>> inbox_;  // guarded by mutex_
  bool stopping_ = false;                      // guarded by mutex_
  std::thread thread_;                         // last: it uses everything above
};

HttpDownloads::HttpDownloads(MediaSettings settings) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  CHECK(ready == CURLE_OK, "libcurl: {}", curl_easy_strerror(ready));
  thread_ = std::make_unique<Thread>(std::move(settings));
}

HttpDownloads::~HttpDownloads() = default;

void HttpDownloads::stop() { thread_->stop(); }

void HttpDownloads::start(DownloadOrder order, Done done) {
  thread_->start(std::move(order), std::move(done));
}

}  // namespace saccade::serve
