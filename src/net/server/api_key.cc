#include "net/server/api_key.h"

#include <openssl/crypto.h>

#include <algorithm>

namespace saccade::net {

std::string_view given_key(const HttpRequest& request) {
  std::string_view given = request.header("authorization");
  if (given.empty()) return request.header("x-api-key");
  // The scheme's case does not matter (RFC 9110 11.1), nor how many blanks follow it.
  constexpr std::string_view kBearer = "bearer ";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; };
  if (given.size() >= kBearer.size() && std::equal(kBearer.begin(), kBearer.end(), given.begin(),
                                                   [&](char b, char a) { return same(a, b); })) {
    given.remove_prefix(kBearer.size());
    given.remove_prefix(std::min(given.find_first_not_of(' '), given.size()));
  }
  return given;
}

bool authorised(const HttpRequest& request, std::span<const std::string> keys) {
  if (keys.empty()) return true;
  const std::string_view given = given_key(request);
  bool known = false;
  for (const std::string& key : keys)
    known |= key.size() == given.size() && CRYPTO_memcmp(key.data(), given.data(), key.size()) == 0;
  return known;
}

}  // namespace saccade::net
