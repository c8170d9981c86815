// Where a Redis or Valkey is, and who one is there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::cluster {

struct StoreAddress {
  std::string host;  // empty: a socket of this machine
  std::uint16_t port = 6379;
  std::string path;  // of the socket
  std::string user;
  std::string password;
  int database = 0;

  // For logs: without user and password.
  std::string display() const;
};

// "redis://[[user]:password@]host[:port][/database]", valkey:// the same, "unix:///path[?db=N]",
// "unix://[[user]:password@]/path". Passwords may have %XX. kInvalid says what is wrong, and never
// repeats a password; kUnsupported for rediss:// and valkeys://.
Result<StoreAddress> parse_store_address(std::string_view text);
// As --registry and --registry-password-file have it; errors name the flag. A file's password is
// taken before the address's.
Result<StoreAddress> read_store_address(std::string_view text, const std::string& password_file);

}  // namespace saccade::cluster
