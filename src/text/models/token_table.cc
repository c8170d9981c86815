#include "text/models/token_table.h"

#include <algorithm>

#include "base/hash.h"

namespace saccade {

Result<void> TokenTable::add(std::int64_t id, std::string_view token) {
  if (id < 0 || id > kMaxId) {
    return fail(ErrorCode::kInvalid, "token \"{}\" has id {}, allowed is 0 to {}",
                token.substr(0, 80), id, kMaxId);
  }
  const auto index = static_cast<std::size_t>(id);
  if (contains(static_cast<TokenId>(id))) {
    return fail(ErrorCode::kInvalid, "id {} is given to both \"{}\" and \"{}\"", id,
                this->token(static_cast<TokenId>(id)).substr(0, 80), token.substr(0, 80));
  }
  if (find(token)) {
    return fail(ErrorCode::kInvalid, "token \"{}\" has two ids", token.substr(0, 80));
  }
  if (token.size() > kMaxTokenBytes) {
    return fail(ErrorCode::kTooLarge, "token {} has {} bytes, limit {}", id, token.size(),
                kMaxTokenBytes);
  }
  if (bytes_.size() + token.size() >= kNowhere) {
    return fail(ErrorCode::kTooLarge, "the vocabulary is over {} bytes", kNowhere);
  }
  if (index >= places_.size()) places_.resize(index + 1);
  places_[index] = {static_cast<std::uint32_t>(bytes_.size()),
                    static_cast<std::uint32_t>(token.size())};
  bytes_ += token;
  longest_bytes_ = std::max(longest_bytes_, token.size());
  ++count_;
  if (2 * count_ > slots_.size()) {
    grow();
  } else {
    slots_[slot_of(token)] = static_cast<TokenId>(id);
  }
  return {};
}

std::optional<TokenId> TokenTable::find(std::string_view token) const {
  const TokenId id = slots_[slot_of(token)];
  if (id < 0) return std::nullopt;
  return id;
}

std::string_view TokenTable::token(TokenId id) const {
  if (!contains(id)) return {};
  const Place& place = places_[static_cast<std::size_t>(id)];
  return std::string_view(bytes_).substr(place.offset, place.length);
}

bool TokenTable::contains(TokenId id) const {
  return id >= 0 && id < end_id() && places_[static_cast<std::size_t>(id)].offset != kNowhere;
}

// The slot that holds `token`, or the free one where it belongs.
std::size_t TokenTable::slot_of(std::string_view token) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash64(token) & mask;
  while (slots_[slot] >= 0 && this->token(slots_[slot]) != token) slot = (slot + 1) & mask;
  return slot;
}

void TokenTable::grow() {
  slots_.assign(slots_.size() * 2, -1);
  for (TokenId id = 0; id < end_id(); ++id) {
    if (contains(id)) slots_[slot_of(token(id))] = id;
  }
}

}  // namespace saccade
