// Bytes to and from one accepted socket, plain or TLS, behind one small interface. Internal to
// net/.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"

namespace saccade::net {

using boost::system::error_code;

// Who hears of completed operations, on the I/O thread. An operation in flight keeps it alive.
class TransportOwner {
 public:
  virtual ~TransportOwner() = default;
  virtual void on_handshake(const error_code& error) = 0;
  virtual void on_read(const error_code& error, std::size_t bytes) = 0;
  virtual void on_write(const error_code& error, std::size_t bytes) = 0;
  virtual void on_reset() = 0;
};

// One read and one write may be in flight at a time. One thread.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void handshake(std::shared_ptr<TransportOwner> owner) = 0;
  virtual void read_some(boost::asio::mutable_buffer into,
                         std::shared_ptr<TransportOwner> owner) = 0;
  virtual void write_some(boost::asio::const_buffer from,
                          std::shared_ptr<TransportOwner> owner) = 0;
  // Writes what the kernel takes at once, without a turn of the event loop. 0 when it takes nothing
  // or the transport cannot tell.
  virtual std::size_t try_write(boost::asio::const_buffer from, error_code& error) = 0;
  // Calls on_reset() once the connection is reset or closed both ways. False where the transport
  // has no life after the peer's end: a peer that stopped sending has left.
  virtual bool watch_reset(std::shared_ptr<TransportOwner> owner) = 0;
  // Tells the peer that nothing more comes; reading goes on.
  virtual void shutdown_send() = 0;
  virtual void close() = 0;
};

// Certificate chain and key, read once for all connections.
class TlsServerContext {
 public:
  static Result<std::shared_ptr<TlsServerContext>> load(const std::string& certificate_path,
                                                        const std::string& key_path);
  virtual ~TlsServerContext() = default;
};

std::unique_ptr<Transport> plain_transport(boost::asio::ip::tcp::socket socket);
std::unique_ptr<Transport> tls_transport(boost::asio::ip::tcp::socket socket,
                                         std::shared_ptr<TlsServerContext> context);

}  // namespace saccade::net
