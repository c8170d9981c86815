// Who may take part: addresses that need no key, and proofs of knowing one.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"

namespace saccade::cluster {

// How processes of a cluster know each other. Without a key and without TLS only loopback and unix
// sockets are listened on.
struct Access {
  std::string key;          // shared; empty: none
  std::string certificate;  // PEM texts, all three or none: both sides show one
  std::string private_key;
  std::string authority;

  bool tls() const { return !certificate.empty(); }
};

// --cluster-key-file: 16 bytes or more, without the line's end; empty for no file.
Result<std::string> read_cluster_key(const std::string& path);

// "HOST:PORT", "[::1]:PORT" or "unix:PATH". kInvalid says what is wrong with it.
Result<void> check_address(std::string_view address);
// The host of "HOST:PORT", without the brackets that one with colons has.
std::string_view host_of(std::string_view address);
// Whether only processes of this machine reach it.
bool is_local_address(std::string_view address);

// HMAC-SHA256 (RFC 2104) over the parts, each with its length, so that no two lists are alike;
// empty for an empty key.
std::string proof(std::string_view key, std::initializer_list<std::string_view> parts);
// In a time that does not tell where they differ.
bool equal_proofs(std::string_view a, std::string_view b);
// What proofs are of: a number's bytes, a digest's.
std::string bytes_of(std::uint64_t number);
inline std::string_view text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Bytes that nobody can guess.
std::string random_bytes(std::size_t count);

}  // namespace saccade::cluster
