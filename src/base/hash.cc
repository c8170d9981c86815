#include "base/hash.h"

#include <openssl/evp.h>

#include <cstring>

#include "base/check.h"

namespace saccade {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1, "SHA-256 is not available");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
}

void Sha256::update(std::string_view bytes) {
  EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
}

Digest Sha256::finish() {
  Digest digest{};
  EVP_DigestFinal_ex(context_->evp, digest.data(), nullptr);
  return digest;
}

Digest sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string to_hex(const Digest& digest) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(digest.size() * 2);
  for (const std::uint8_t byte : digest) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

std::uint64_t hash64(std::string_view bytes, std::uint64_t seed) {
  std::uint64_t state = hash_combine(seed, bytes.size());
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    state = hash_combine(state, word);
    bytes.remove_prefix(8);
  }
  std::uint64_t tail = 0;
  std::memcpy(&tail, bytes.data(), bytes.size());
  return hash_combine(state, tail);
}

std::size_t DigestHash::operator()(const Digest& digest) const {
  std::size_t value = 0;
  std::memcpy(&value, digest.data(), sizeof(value));
  return value;
}

}  // namespace saccade
