#include "cluster/store/store_link.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace saccade::cluster {

std::string reason_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kTimeout:
      return "late";
    case ErrorCode::kCorrupt:
      return "protocol";
    case ErrorCode::kDenied:
      return "denied";
    case ErrorCode::kExhausted:
      return "busy";
    default:
      return "unreachable";
  }
}

std::string reason_of_reply(const std::string& text) {
  constexpr std::array<std::string_view, 11> kKnown = {
      "LOADING", "READONLY", "OOM",        "NOAUTH",      "WRONGPASS", "MOVED",
      "NOPERM",  "MISCONF",  "MASTERDOWN", "CLUSTERDOWN", "WRONGTYPE"};
  const std::string word = text.substr(0, text.find(' '));
  return std::ranges::find(kKnown, word) == kKnown.end() ? "other" : word;
}

std::optional<StoreFailure> failure_of(const Result<std::vector<StoreReply>>& replies) {
  if (!replies) return StoreFailure{reason_of(replies.error()), replies.error().message};
  const auto at = std::ranges::find(*replies, StoreReply::Kind::kError, &StoreReply::kind);
  if (at == replies->end()) return std::nullopt;
  return StoreFailure{reason_of_reply(at->text), at->text};
}

}  // namespace saccade::cluster
