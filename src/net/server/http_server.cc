// Listening, accepting, draining. What a connection does is server_connection.cc.
#include "net/server/http_server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <future>

#include "base/log.h"
#include "net/client/resolver.h"
#include "net/server/descriptor_limit.h"
#include "net/server/server_connection.h"

namespace saccade::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kAcceptRetry{100};
constexpr int kMaxKeepAliveIdleSeconds = 60;
constexpr std::chrono::seconds kTlsLooks{1};  // at most one in

// No Nagle delay; probes that find peers which vanished without a word.
void set_socket_options(tcp::socket& socket, const HttpServerSettings& settings) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const int idle =
      std::clamp(static_cast<int>(settings.idle_timeout.count()), 1, kMaxKeepAliveIdleSeconds);
  const int interval = std::max(1, idle / 6);
  const int probes = 3;
  const int fd = socket.native_handle();
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

std::string name_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return fmt::format(fmt::runtime(endpoint.address().is_v6() ? "[{}]:{}" : "{}:{}"), address,
                     endpoint.port());
}

Result<tcp::endpoint> endpoint_of(const HttpServerSettings& settings, asio::io_context& context) {
  error_code error;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(is_localhost(settings.host) ? "127.0.0.1" : settings.host,
                                      std::to_string(settings.port), tcp::resolver::passive, error);
  if (error || found.empty())
    return saccade::fail(ErrorCode::kInvalid, "host {}: {}", settings.host, error.message());
  return found.begin()->endpoint();
}

Result<void> bind_to(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error;
  const auto try_step = [&](auto&& step) {
    if (!error) step();
  };
  try_step([&] { acceptor.open(endpoint.protocol(), error); });
  try_step([&] { acceptor.set_option(tcp::acceptor::reuse_address(true), error); });
  try_step([&] { acceptor.bind(endpoint, error); });
  if (error)
    return saccade::fail(ErrorCode::kUnavailable, "cannot listen on {}: {}", name_of(endpoint),
                         error.message());
  return {};
}

// A host that is a path is that of a Unix socket.
bool is_path(std::string_view host) { return host.starts_with('/'); }

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return saccade::fail(ErrorCode::kInvalid, "the socket's path has {} bytes, the limit is {}: {}",
                         path.size(), sizeof address.sun_path - 1, path);
  std::ranges::copy(path, address.sun_path);
  return address;
}

// A socket that nobody listens on is what an ended server left, and goes.
Result<void> clear_path(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode))
    return saccade::fail(ErrorCode::kInvalid, "cannot listen on {}: it is there, and no socket",
                         path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool taken =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != ECONNREFUSED;
  ::close(fd);
  if (taken)
    return saccade::fail(ErrorCode::kUnavailable, "cannot listen on {}: another server does", path);
  unlink(path.c_str());
  return {};
}

// Who may connect is what the umask leaves of the socket's permissions.
Result<int> bound_to_path(const std::string& path) {
  TRY(const sockaddr_un address, unix_address(path));
  TRY_DO(clear_path(path, address));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int reason = errno;
    if (fd >= 0) ::close(fd);
    return saccade::fail(ErrorCode::kUnavailable, "cannot listen on {}: {}{}", path,
                         std::strerror(reason), reason == ENOENT ? ": its folder is missing" : "");
  }
  return fd;
}

// Files of a certificate and its key, as they are now.
struct TlsFiles {
  std::vector<std::pair<timespec, off_t>> seen;

  static TlsFiles of(const HttpServerSettings& settings) {
    TlsFiles files;
    for (const std::string& path : {settings.tls_certificate, settings.tls_key}) {
      struct stat status{};
      if (!path.empty() && stat(path.c_str(), &status) == 0)
        files.seen.emplace_back(status.st_mtim, status.st_size);
    }
    return files;
  }
  bool operator==(const TlsFiles& other) const {
    return std::ranges::equal(seen, other.seen, [](const auto& a, const auto& b) {
      return a.first.tv_sec == b.first.tv_sec && a.first.tv_nsec == b.first.tv_nsec &&
             a.second == b.second;
    });
  }
};

// Accepts on the first I/O thread, and deals connections to all of them in turn.
class Server final : public HttpServer {
 public:
  Server(const HttpServerSettings& settings, HttpHandler handler, HttpAdmit admit)
      : context_(std::make_shared<ServerContext>()) {
    context_->settings = settings;
    context_->handler = std::move(handler);
    context_->admit = std::move(admit);
    for (int i = 0; i < std::max(1, settings.io_threads); ++i) {
      threads_.push_back(std::make_shared<IoThread>());
    }
    acceptor_.emplace(threads_.front()->context());
    retry_timer_.emplace(threads_.front()->context());
  }

  ~Server() override {
    stop_accepting();
    for (const auto& thread : threads_) thread->stop();
    context_->handler = nullptr;
    context_->admit = nullptr;
    if (has_path_) unlink(context_->settings.host.c_str());
  }

  Result<void> open() {
    const HttpServerSettings& settings = context_->settings;
    if (!settings.tls_certificate.empty()) {
      tls_files_ = TlsFiles::of(settings);
      TRY(context_->tls, TlsServerContext::load(settings.tls_certificate, settings.tls_key));
    }
    std::string name = settings.host;
    if (is_path(settings.host)) {
      TRY(const int fd, bound_to_path(settings.host));
      // Only the descriptor counts from here on: Asio asks neither end for its address.
      acceptor_->assign(tcp::v4(), fd);
      has_path_ = true;
    } else {
      TRY(const tcp::endpoint endpoint, endpoint_of(settings, threads_.front()->context()));
      TRY_DO(bind_to(*acceptor_, endpoint));
      name = name_of(endpoint);
    }
    error_code error;
    acceptor_->listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return saccade::fail(ErrorCode::kUnavailable, "cannot listen on {}: {}", name,
                           error.message());
    }
    if (!has_path_) port_ = acceptor_->local_endpoint(error).port();
    threads_.front()->post([this] { accept(); });
    return {};
  }

  std::uint16_t port() const override { return port_; }

  void drain(std::chrono::milliseconds limit) override {
    {
      const std::lock_guard lock(context_->mutex);
      context_->draining = true;
    }
    for (const auto& thread : threads_) {
      thread->post([raw = thread.get()] { raw->close_idle(); });
    }
    std::unique_lock lock(context_->mutex);
    context_->closed_one.wait_for(lock, limit, [this] { return context_->awaited == 0; });
  }

  std::size_t open_connections() const override {
    const std::lock_guard lock(context_->mutex);
    return context_->open;
  }

 private:
  // On the first I/O thread.
  void accept() {
    const std::shared_ptr<IoThread> thread = threads_[next_thread_++ % threads_.size()];
    acceptor_->async_accept(thread->context(),
                            [this, thread](error_code error, tcp::socket socket) {
                              if (error == asio::error::operation_aborted || !acceptor_->is_open())
                                return;
                              if (error) {
                                // Out of descriptors, mostly: what is open goes on, and newcomers
                                // wait in the backlog.
                                log::warning("accept: {}", error.message());
                                retry_timer_->expires_after(kAcceptRetry);
                                retry_timer_->async_wait([this](error_code cancelled) {
                                  if (!cancelled) accept();
                                });
                                return;
                              }
                              try {
                                adopt(thread, std::move(socket));
                              } catch (const std::exception& failure) {
                                log::warning("accept: {}", failure.what());
                              }
                              accept();
                            });
  }

  // What connections from now on are shown. Files that do not fit together, as while they are being
  // replaced, leave it as it was.
  void refresh_tls() {
    const auto now = std::chrono::steady_clock::now();
    if (!context_->tls || now - tls_looked_ < kTlsLooks) return;
    tls_looked_ = now;
    const HttpServerSettings& settings = context_->settings;
    TlsFiles files = TlsFiles::of(settings);
    if (files == tls_files_) return;
    tls_files_ = std::move(files);
    auto loaded = TlsServerContext::load(settings.tls_certificate, settings.tls_key);
    if (!loaded) return log::warning("the certificate stays: {}", loaded.error().message);
    context_->tls = *std::move(loaded);
    log::info("{} is read again", settings.tls_certificate);
  }

  void adopt(const std::shared_ptr<IoThread>& thread, tcp::socket socket) {
    std::string peer = "unix";
    if (!has_path_) {
      set_socket_options(socket, context_->settings);
      error_code error;
      const tcp::endpoint endpoint = socket.remote_endpoint(error);
      if (error) return;  // already gone
      peer = name_of(endpoint);
    }
    refresh_tls();
    auto transport = context_->tls ? tls_transport(std::move(socket), context_->tls)
                                   : plain_transport(std::move(socket));
    auto connection =
        std::make_shared<ServerConnection>(context_, thread, std::move(transport), std::move(peer));
    thread->post([connection = std::move(connection)] {
      connection->guarded([&] { connection->start(); });
    });
  }

  void stop_accepting() {
    std::promise<void> stopped;
    threads_.front()->post([&] {
      error_code ignored;
      acceptor_->close(ignored);
      retry_timer_->cancel();
      stopped.set_value();
    });
    stopped.get_future().wait();
  }

  std::shared_ptr<ServerContext> context_;
  std::vector<std::shared_ptr<IoThread>> threads_;
  std::optional<tcp::acceptor> acceptor_;  // on the first thread
  std::optional<asio::steady_timer> retry_timer_;
  std::size_t next_thread_ = 0;
  std::uint16_t port_ = 0;
  bool has_path_ = false;  // of a Unix socket that is ours
  TlsFiles tls_files_;     // from here on: on the first thread
  std::chrono::steady_clock::time_point tls_looked_;
};

}  // namespace

std::string_view HttpRequest::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

Result<void> HttpServer::check(const HttpServerSettings& settings) {
  if (!settings.tls_certificate.empty())
    TRY_DO(TlsServerContext::load(settings.tls_certificate, settings.tls_key));
  if (is_path(settings.host)) {
    // Whether a socket can be made there is known when one was.
    TRY(const int fd, bound_to_path(settings.host));
    ::close(fd);
    unlink(settings.host.c_str());
    return {};
  }
  asio::io_context context;
  TRY(const tcp::endpoint endpoint, endpoint_of(settings, context));
  tcp::acceptor acceptor(context);
  return bind_to(acceptor, endpoint);
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpServerSettings& settings,
                                                       HttpHandler handler, HttpAdmit admit) {
  raise_descriptor_limit();
  auto server = std::make_unique<Server>(settings, std::move(handler), std::move(admit));
  TRY_DO(server->open());
  return server;
}

}  // namespace saccade::net
