// Hashes. Sha256 names content that a client controls (images, checkpoints): collisions must not be
// constructible. mix64 and hash64 are for tables and chains whose hits are verified by comparison.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace saccade {

using Digest = std::array<std::uint8_t, 32>;

// Incremental SHA-256. One thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes);
  Digest finish();  // once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Digest sha256(std::string_view bytes);
std::string to_hex(const Digest& digest);

// Finaliser of splitmix64: a bijection with good avalanche.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t hash_combine(std::uint64_t seed, std::uint64_t value) {
  return mix64(seed + 0x9e3779b97f4a7c15ULL + mix64(value));
}

std::uint64_t hash64(std::string_view bytes, std::uint64_t seed = 0);

struct DigestHash {
  std::size_t operator()(const Digest& digest) const;
};

}  // namespace saccade
