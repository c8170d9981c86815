// Verification is on unless the user says otherwise; names and addresses are checked by OpenSSL.
#include "net/client/tls_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/check.h"

namespace saccade::net {
namespace {

std::string last_openssl_error() {
  const unsigned long code = ERR_get_error();
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : text.data();
}

bool is_ip_address(const std::string& host) {
  ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  return address != nullptr;
}

}  // namespace

Result<std::shared_ptr<TlsClientContext>> TlsClientContext::create(
    const HttpClientSettings& settings) {
  std::shared_ptr<TlsClientContext> made(new TlsClientContext);
  made->context_ = SSL_CTX_new(TLS_client_method());
  if (made->context_ == nullptr) {
    return fail(ErrorCode::kInternal, "OpenSSL: {}", last_openssl_error());
  }
  made->verify_ = settings.verify_tls;
  SSL_CTX_set_min_proto_version(made->context_, TLS1_2_VERSION);
  SSL_CTX_set_mode(made->context_,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (!settings.verify_tls) {
    SSL_CTX_set_verify(made->context_, SSL_VERIFY_NONE, nullptr);
    return made;
  }
  SSL_CTX_set_verify(made->context_, SSL_VERIFY_PEER, nullptr);
  if (settings.ca_file.empty()) return made;
  if (SSL_CTX_load_verify_locations(made->context_, settings.ca_file.c_str(), nullptr) != 1) {
    return fail(ErrorCode::kInvalid, "CA file {}: {}", settings.ca_file, last_openssl_error());
  }
  made->trust_loaded_ = true;
  return made;
}

void TlsClientContext::load_system_trust() {
  // File and directory alone: OpenSSL 3.0's default store calls a null pointer when it is closed.
  if (verify_ && !trust_loaded_) {
    SSL_CTX_set_default_verify_file(context_);
    SSL_CTX_set_default_verify_dir(context_);
  }
  trust_loaded_ = true;
}

TlsClientContext::~TlsClientContext() { SSL_CTX_free(context_); }

TlsSession::TlsSession(std::shared_ptr<TlsClientContext> context, int fd, const std::string& host)
    : context_(std::move(context)) {
  context_->load_system_trust();
  ssl_ = SSL_new(context_->context_);
  CHECK(ssl_ != nullptr, "{}", last_openssl_error());
  SSL_set_fd(ssl_, fd);
  SSL_set_connect_state(ssl_);
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  SSL_set_alpn_protos(ssl_, kHttp11, sizeof kHttp11 - 1);
  if (is_ip_address(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl_, host.c_str());
    SSL_set1_host(ssl_, host.c_str());
  }
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

IoStep TlsSession::step_of(int result) {
  if (result > 0) return {IoStatus::kDone, static_cast<std::size_t>(result)};
  const int saved_errno = errno;
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return {IoStatus::kWouldBlock, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {IoStatus::kClosed, 0};
    case SSL_ERROR_SYSCALL:
      failure_ = saved_errno != 0 ? std::strerror(saved_errno) : "connection closed";
      ERR_clear_error();
      return {IoStatus::kFailed, 0};
    default: {
      const long verified = SSL_get_verify_result(ssl_);
      failure_ = last_openssl_error();
      if (context_->verify_ && verified != X509_V_OK) {
        failure_ += ": ";
        failure_ += X509_verify_cert_error_string(verified);
      }
      return {IoStatus::kFailed, 0};
    }
  }
}

IoStep TlsSession::handshake() {
  ERR_clear_error();
  errno = 0;
  return step_of(SSL_do_handshake(ssl_));
}

IoStep TlsSession::read(std::span<char> into) {
  ERR_clear_error();
  errno = 0;
  const int room = static_cast<int>(std::min<std::size_t>(into.size(), INT_MAX));
  return step_of(SSL_read(ssl_, into.data(), room));
}

IoStep TlsSession::write(std::string_view from) {
  ERR_clear_error();
  errno = 0;
  const int size = static_cast<int>(std::min<std::size_t>(from.size(), INT_MAX));
  return step_of(SSL_write(ssl_, from.data(), size));
}

}  // namespace saccade::net
