#include "cluster/access.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"
#include "base/regular_file.h"

namespace saccade::cluster {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::size_t kBlock = 64;           // of SHA-256
constexpr std::size_t kMaxSocketPath = 107;  // sockaddr_un
constexpr std::size_t kLeastKey = 16;
constexpr std::size_t kMaxKey = 4096;

}  // namespace

Result<std::string> read_cluster_key(const std::string& path) {
  if (path.empty()) return std::string();
  auto text = read_regular_file(path, std::size_t{1} << 20);
  if (!text) return fail_within("--cluster-key-file", std::move(text).error());
  std::string& key = *text;
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.size() < kLeastKey || key.size() > kMaxKey)
    return fail(ErrorCode::kInvalid, "--cluster-key-file {}: a key of {} bytes, {} to {} are taken",
                path, key.size(), kLeastKey, kMaxKey);
  return text;
}

Result<void> check_address(std::string_view address) {
  if (address.starts_with(kUnix)) {
    const std::size_t path = address.size() - kUnix.size();
    if (path > 0 && path <= kMaxSocketPath) return {};
    return fail(ErrorCode::kInvalid, "{}: a path of 1 to {} bytes is required", address,
                kMaxSocketPath);
  }
  const std::size_t colon = address.rfind(':');
  unsigned port = 0;
  const char* const last = address.data() + address.size();
  const char* const first = colon == std::string_view::npos ? last : address.data() + colon + 1;
  const auto [end, error] = std::from_chars(first, last, port);
  const std::string_view host = colon == std::string_view::npos ? "" : host_of(address);
  if (error != std::errc() || end != last || port > 65'535 || host.empty())
    return fail(ErrorCode::kInvalid, "{}: HOST:PORT or unix:PATH is required", address);
  return {};
}

std::string_view host_of(std::string_view address) {
  std::string_view host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

bool is_local_address(std::string_view address) {
  if (address.starts_with(kUnix)) return true;
  const std::string_view host = host_of(address);
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string proof(std::string_view key, std::initializer_list<std::string_view> parts) {
  if (key.empty()) return {};
  std::array<char, kBlock> block{};
  const Digest short_key = sha256(key);
  const std::string_view used = key.size() > kBlock ? text_of(short_key) : key;
  std::copy(used.begin(), used.end(), block.begin());
  const auto padded = [&](char pad) {
    std::string text(block.begin(), block.end());
    for (char& c : text) c = static_cast<char>(c ^ pad);
    return text;
  };
  Sha256 inner;
  inner.update(padded(0x36));
  for (const std::string_view part : parts) {
    inner.update(bytes_of(part.size()));
    inner.update(part);
  }
  const Digest within = inner.finish();
  Sha256 outer;
  outer.update(padded(0x5c));
  outer.update(text_of(within));
  const Digest made = outer.finish();
  return std::string(text_of(made));
}

bool equal_proofs(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return difference == 0;
}

std::string bytes_of(std::uint64_t number) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>((number >> (8 * i)) & 0xff);
  return bytes;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  CHECK(getrandom(bytes.data(), count, 0) == static_cast<ssize_t>(count), "no random bytes");
  return bytes;
}

}  // namespace saccade::cluster
