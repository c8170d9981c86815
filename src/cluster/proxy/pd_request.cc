#include "cluster/proxy/pd_request.h"

#include <algorithm>

#include "base/hash.h"

namespace saccade::cluster {
namespace {

constexpr std::int64_t kBytesOfToken = 4;         // of text
constexpr std::int64_t kBytesOfImageToken = 400;  // of a data URL with a JPEG in it
constexpr std::int64_t kRemoteTokens = 1'024;     // of a medium that is not here
constexpr std::int64_t kLeastImage = 64;
constexpr std::int64_t kMaxImage = 16'384;
constexpr std::int64_t kEveryRequest = 16;  // tokens

}  // namespace

PdRequest predicted_request(const ScannedBody& body, std::string_view session) {
  PdRequest request;
  request.prompt = kEveryRequest + static_cast<std::int64_t>(body.text_bytes) / kBytesOfToken;
  for (const ScannedMedia& medium : body.media) {
    const auto bytes = static_cast<std::int64_t>(medium.end - medium.begin);
    request.prompt += medium.remote
                          ? kRemoteTokens
                          : std::clamp(bytes / kBytesOfImageToken, kLeastImage, kMaxImage);
  }
  request.work = request.prompt;
  const std::string_view name = session.empty() ? std::string_view(body.user) : session;
  request.affinity = name.empty() ? body.opening : hash64(name, 1);
  return request;
}

}  // namespace saccade::cluster
