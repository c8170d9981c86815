// TLS for the client's sockets, by OpenSSL. Internal to net/.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "net/client/http_client.h"

struct ssl_st;
struct ssl_ctx_st;

namespace saccade::net {

// What one step on a non-blocking connection came to.
enum class IoStatus { kDone, kWouldBlock, kClosed, kFailed };
struct IoStep {
  IoStatus status = IoStatus::kDone;
  std::size_t bytes = 0;
  int error = 0;  // errno of kFailed, when it has one
};

// Trust and versions, shared by all connections of a client.
class TlsClientContext {
 public:
  static Result<std::shared_ptr<TlsClientContext>> create(const HttpClientSettings& settings);
  ~TlsClientContext();
  TlsClientContext(const TlsClientContext&) = delete;
  TlsClientContext& operator=(const TlsClientContext&) = delete;

 private:
  friend class TlsSession;
  TlsClientContext() = default;
  // The system's authorities take 10 ms to read: not before the first session needs them.
  void load_system_trust();
  ssl_ctx_st* context_ = nullptr;
  bool verify_ = true;
  bool trust_loaded_ = false;
};

// One connection's TLS on a connected non-blocking socket, which it does not own.
class TlsSession {
 public:
  TlsSession(std::shared_ptr<TlsClientContext> context, int fd, const std::string& host);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  IoStep handshake();
  IoStep read(std::span<char> into);
  IoStep write(std::string_view from);
  const std::string& failure() const { return failure_; }  // after kFailed

 private:
  IoStep step_of(int result);
  std::shared_ptr<TlsClientContext> context_;
  ssl_st* ssl_ = nullptr;
  std::string failure_;
};

}  // namespace saccade::net
