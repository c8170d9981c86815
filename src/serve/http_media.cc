#include "serve/http_media.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "serve/media_reference.h"
#include "serve/private_address.h"

namespace saccade::serve {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

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
  std::transform(host.begin(), host.end(), host.begin(), lower);
  return host;
}

bool is_address(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  return inet_pton(AF_INET, host.c_str(), &four) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &six) == 1;
}

// A domain allows itself and its subdomains; an address has none.
bool matches_domain(const std::string& host, std::string domain) {
  std::transform(domain.begin(), domain.end(), domain.begin(), lower);
  if (host == domain) return true;
  return !domain.empty() && !is_address(host) && host.ends_with("." + domain);
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

// One request without redirects; libcurl's callbacks find it through their user pointer.
class Transfer {
 public:
  Transfer(const MediaSettings& settings, const std::atomic<bool>& cancelled)
      : settings_(settings), cancelled_(cancelled), curl_(curl_easy_init(), curl_easy_cleanup) {}

  struct Response {
    long status = 0;
    std::string body;
    std::string redirect;  // absolute
  };
  Result<Response> get(const std::string& url, SteadyTime deadline);

 private:
  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self);
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);
  static curl_socket_t on_socket(void* self, curlsocktype purpose, curl_sockaddr* address);
  Error error_of(CURLcode code, const std::string& url) const;

  const MediaSettings& settings_;
  const std::atomic<bool>& cancelled_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
  char reason_[CURL_ERROR_SIZE] = {};
  std::string body_;
  bool too_large_ = false;
  std::string refused_address_;
};

std::size_t Transfer::on_body(char* data, std::size_t, std::size_t size, void* user) {
  auto& self = *static_cast<Transfer*>(user);
  if (size > self.settings_.max_bytes - self.body_.size()) {
    self.too_large_ = true;
    return 0;
  }
  self.body_.append(data, size);
  return size;
}

int Transfer::on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(user)->cancelled_.load(std::memory_order_relaxed) ? 1 : 0;
}

curl_socket_t Transfer::on_socket(void* user, curlsocktype, curl_sockaddr* address) {
  auto& self = *static_cast<Transfer*>(user);
  if (!self.settings_.allow_private_addresses &&
      is_private_address(address->addr, address->addrlen)) {
    self.refused_address_ = address_text(address->addr, address->addrlen);
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

Result<Transfer::Response> Transfer::get(const std::string& url, SteadyTime deadline) {
  CURL* curl = curl_.get();
  if (curl == nullptr) return fail(ErrorCode::kInternal, "libcurl gave no handle");
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return fail(error_of(CURLE_OPERATION_TIMEDOUT, url));
  body_.clear();
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "saccade");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason_);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(settings_.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(left.count()));
  curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(settings_.max_bytes));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, this);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, &Transfer::on_socket);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, this);
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) return fail(error_of(code, url));

  Response response;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response.status);
  char* redirect = nullptr;
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) response.redirect = redirect;
  response.body = std::move(body_);
  return response;
}

Error Transfer::error_of(CURLcode code, const std::string& url) const {
  const std::string name = shortened(url);
  if (!refused_address_.empty()) {
    return {
        ErrorCode::kDenied, fmt::format("{}: {} is a private address", name, refused_address_), {}};
  }
  if (too_large_ || code == CURLE_FILESIZE_EXCEEDED) {
    return {ErrorCode::kTooLarge,
            fmt::format("{}: the image is over {} bytes", name, settings_.max_bytes),
            {}};
  }
  if (code == CURLE_ABORTED_BY_CALLBACK)
    return {ErrorCode::kCancelled, fmt::format("{}: cancelled", name), {}};
  if (code == CURLE_OPERATION_TIMEDOUT) {
    return {ErrorCode::kTimeout,
            fmt::format("{}: no image within {} ms (connecting: {} ms)", name,
                        settings_.total_timeout.count(), settings_.connect_timeout.count()),
            {}};
  }
  return {ErrorCode::kUndecodable,
          fmt::format("{}: cannot be fetched: {}", name,
                      reason_[0] != '\0' ? reason_ : curl_easy_strerror(code)),
          {}};
}

}  // namespace

Result<std::string> fetch_http(const std::string& url, const MediaSettings& settings,
                               const std::atomic<bool>& cancelled) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK)
    return fail(ErrorCode::kInternal, "libcurl: {}", curl_easy_strerror(ready));
  const SteadyTime deadline = std::chrono::steady_clock::now() + settings.total_timeout;
  Transfer transfer(settings, cancelled);
  std::string hop = url;
  for (int redirects = 0;; ++redirects) {
    TRY_DO(check_url(hop, settings));
    TRY(Transfer::Response response, transfer.get(hop, deadline));
    if (response.status >= 200 && response.status < 300) return std::move(response.body);
    if (response.status < 300 || response.status >= 400 || response.redirect.empty()) {
      return fail(ErrorCode::kUndecodable, "{}: answered with HTTP status {}", shortened(hop),
                  response.status);
    }
    if (redirects == settings.max_redirects) {
      return fail(ErrorCode::kUndecodable, "{}: over {} redirects", shortened(url),
                  settings.max_redirects);
    }
    hop = std::move(response.redirect);
  }
}

}  // namespace saccade::serve
