// Frames of HTTP/2 and what gRPC has in them, as they are meant and otherwise (RFC 9113, RFC 7541).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/rng.h"

namespace saccade::test {

enum class Http2Frame : char {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9
};
constexpr char kEndStream = 1;
constexpr char kEndHeaders = 4;

inline std::string big_endian(std::uint32_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  return out;
}

inline std::string frame(Http2Frame type, int flags, std::uint32_t stream,
                         std::string_view payload) {
  std::string out = big_endian(static_cast<std::uint32_t>(payload.size()), 3);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  return out + big_endian(stream, 4) + std::string(payload);
}

// A header that no table has, as it is; both up to 126 bytes.
inline std::string header(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  for (const std::string_view text : {name, value})
    out += static_cast<char>(text.size()) + std::string(text);
  return out;
}
// What gRPC has in frames of data.
inline std::string grpc_message(std::string_view bytes) {
  std::string out(1, '\0');  // not compressed
  return out + big_endian(static_cast<std::uint32_t>(bytes.size()), 4) + std::string(bytes);
}
// :status 200, from HPACK's static table, and a content type.
inline std::string grpc_head() { return "\x88" + header("content-type", "application/grpc"); }

inline std::string any_bytes(Rng& rng, std::size_t count) {
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(rng.below(256));
  return bytes;
}
// What ends a stream or a connection, or opens a window.
inline std::string any_control(Rng& rng, std::uint32_t stream) {
  const std::string code = big_endian(static_cast<std::uint32_t>(rng.below(14)), 4);
  switch (rng.below(3)) {
    case 0:
      return frame(Http2Frame::kReset, 0, stream, code);
    case 1:
      return frame(Http2Frame::kGoAway, 0, 0, big_endian(stream, 4) + code);
    default:
      return frame(Http2Frame::kWindowUpdate, 0, stream, any_bytes(rng, 4));
  }
}
inline void flip_a_bit(Rng& rng, std::string& bytes) {
  if (!bytes.empty()) bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
}

}  // namespace saccade::test
