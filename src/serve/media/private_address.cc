#include "serve/media/private_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace saccade::serve {
namespace {

struct Range4 {
  std::uint32_t network;
  int bits;
};

constexpr std::uint32_t ip(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}

constexpr Range4 kPrivate4[] = {
    {ip(0, 0, 0, 0), 8},        // "this" network
    {ip(10, 0, 0, 0), 8},       // private
    {ip(100, 64, 0, 0), 10},    // shared by carriers
    {ip(127, 0, 0, 0), 8},      // loopback
    {ip(169, 254, 0, 0), 16},   // link-local, cloud metadata
    {ip(172, 16, 0, 0), 12},    // private
    {ip(192, 0, 0, 0), 24},     // protocol assignments
    {ip(192, 0, 2, 0), 24},     // documentation
    {ip(192, 88, 99, 0), 24},   // 6to4 relays
    {ip(192, 168, 0, 0), 16},   // private
    {ip(198, 18, 0, 0), 15},    // benchmarks
    {ip(198, 51, 100, 0), 24},  // documentation
    {ip(203, 0, 113, 0), 24},   // documentation
    {ip(224, 0, 0, 0), 3},      // multicast, reserved, broadcast
};

bool is_private4(std::uint32_t address) {
  for (const Range4& range : kPrivate4) {
    if ((address ^ range.network) >> (32 - range.bits) == 0) return true;
  }
  return false;
}

using Bytes16 = std::array<std::uint8_t, 16>;

struct Range6 {
  Bytes16 network;
  int bits;
};

// Public unicast is 2000::/3 less the ranges below.
constexpr Range6 kPrivate6[] = {
    {{0x20, 0x01, 0x00}, 23},        // protocol assignments, Teredo among them
    {{0x20, 0x01, 0x0d, 0xb8}, 32},  // documentation
    {{0x3f, 0xff, 0x00}, 20},        // documentation
};

bool starts_with(const Bytes16& address, const Bytes16& network, int bits) {
  for (int i = 0; i < bits; ++i) {
    const auto byte = static_cast<std::size_t>(i / 8);
    if (((address[byte] ^ network[byte]) >> (7 - i % 8) & 1) != 0) return false;
  }
  return true;
}

std::uint32_t embedded4(const Bytes16& address, std::size_t at) {
  return ip(address[at], address[at + 1], address[at + 2], address[at + 3]);
}

bool is_private6(const Bytes16& address) {
  constexpr Bytes16 kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr Bytes16 kNat64 = {0x00, 0x64, 0xff, 0x9b};
  constexpr Bytes16 k6to4 = {0x20, 0x02};
  if (starts_with(address, kMapped, 96)) return is_private4(embedded4(address, 12));
  if (starts_with(address, kNat64, 96)) return is_private4(embedded4(address, 12));
  if (starts_with(address, k6to4, 16)) return is_private4(embedded4(address, 2));
  if (!starts_with(address, {0x20}, 3)) return true;
  for (const Range6& range : kPrivate6) {
    if (starts_with(address, range.network, range.bits)) return true;
  }
  return false;
}

}  // namespace

bool is_private_address(const sockaddr& address, socklen_t length) {
  if (address.sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof(in));
    return is_private4(ntohl(in.sin_addr.s_addr));
  }
  if (address.sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 in{};
    std::memcpy(&in, &address, sizeof(in));
    Bytes16 bytes{};
    std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
    return is_private6(bytes);
  }
  return true;
}

std::string address_text(const sockaddr& address, socklen_t length) {
  char text[INET6_ADDRSTRLEN] = "an address of an unknown family";
  if (address.sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof(text));
  } else if (address.sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text,
              sizeof(text));
  }
  return text;
}

}  // namespace saccade::serve
