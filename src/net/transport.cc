// The two transports. The server's only user of asio::ssl.
#include "net/transport.h"

#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>

namespace saccade::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// What plain and encrypted transports do alike.
template <typename Stream>
class StreamTransport : public Transport {
 public:
  template <typename... Args>
  explicit StreamTransport(Args&&... args) : stream_(std::forward<Args>(args)...) {}
  void read_some(asio::mutable_buffer into, std::shared_ptr<TransportOwner> owner) override {
    stream_.async_read_some(into, [owner = std::move(owner)](error_code error, std::size_t bytes) {
      owner->on_read(error, bytes);
    });
  }
  void write_some(asio::const_buffer from, std::shared_ptr<TransportOwner> owner) override {
    stream_.async_write_some(from, [owner = std::move(owner)](error_code error, std::size_t bytes) {
      owner->on_write(error, bytes);
    });
  }
  // Without a close_notify: HTTP messages are framed, so truncation shows without it.
  void shutdown_send() override {
    error_code ignored;
    stream_.lowest_layer().shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 protected:
  Stream stream_;
};

class PlainTransport final : public StreamTransport<tcp::socket> {
 public:
  explicit PlainTransport(tcp::socket socket) : StreamTransport(std::move(socket)) {
    error_code ignored;
    stream_.non_blocking(true, ignored);
  }
  void handshake(std::shared_ptr<TransportOwner> owner) override { owner->on_handshake({}); }
  std::size_t try_write(asio::const_buffer from, error_code& error) override {
    const std::size_t bytes = stream_.write_some(from, error);
    if (error == asio::error::would_block || error == asio::error::try_again) {
      error = {};
      return 0;
    }
    return bytes;
  }
  bool watch_reset(std::shared_ptr<TransportOwner> owner) override {
    stream_.async_wait(tcp::socket::wait_error, [owner = std::move(owner)](error_code error) {
      if (!error) owner->on_reset();
    });
    return true;
  }
};

class AsioTlsContext final : public TlsServerContext {
 public:
  asio::ssl::context context{asio::ssl::context::tls_server};
};

class TlsTransport final : public StreamTransport<asio::ssl::stream<tcp::socket>> {
 public:
  TlsTransport(tcp::socket socket, std::shared_ptr<AsioTlsContext> context)
      : StreamTransport(std::move(socket), context->context), context_(std::move(context)) {}
  void handshake(std::shared_ptr<TransportOwner> owner) override {
    stream_.async_handshake(
        asio::ssl::stream_base::server,
        [owner = std::move(owner)](error_code error) { owner->on_handshake(error); });
  }
  std::size_t try_write(asio::const_buffer, error_code&) override { return 0; }
  bool watch_reset(std::shared_ptr<TransportOwner>) override { return false; }

 private:
  std::shared_ptr<AsioTlsContext> context_;
};

}  // namespace

Result<std::shared_ptr<TlsServerContext>> TlsServerContext::load(
    const std::string& certificate_path, const std::string& key_path) {
  auto loaded = std::make_shared<AsioTlsContext>();
  error_code error;
  loaded->context.set_options(asio::ssl::context::default_workarounds |
                                  asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1 |
                                  asio::ssl::context::no_compression,
                              error);
  loaded->context.use_certificate_chain_file(certificate_path, error);
  if (error) {
    return fail(ErrorCode::kInvalid, "TLS certificate {}: {}", certificate_path, error.message());
  }
  loaded->context.use_private_key_file(key_path, asio::ssl::context::pem, error);
  if (error) return fail(ErrorCode::kInvalid, "TLS key {}: {}", key_path, error.message());
  return loaded;
}

std::unique_ptr<Transport> plain_transport(tcp::socket socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

std::unique_ptr<Transport> tls_transport(tcp::socket socket,
                                         std::shared_ptr<TlsServerContext> context) {
  return std::make_unique<TlsTransport>(std::move(socket),
                                        std::static_pointer_cast<AsioTlsContext>(context));
}

}  // namespace saccade::net
