#include "grammar/automaton/vocabulary.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxPieceBytes = 1024;  // longer tokens are never allowed

}  // namespace

Vocabulary::Vocabulary(const Tokenizer& tokenizer, std::int32_t size,
                       std::vector<TokenId> end_tokens)
    : end_tokens_(std::move(end_tokens)) {
  offsets_.push_back(0);
  for (TokenId id = 0; id < size; ++id) {
    const bool text = id < tokenizer.vocab_size() && !tokenizer.is_special(id) && !is_end(id);
    if (text) bytes_ += tokenizer.piece(id);
    offsets_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  build();
}

Vocabulary::Vocabulary(const std::vector<std::string>& pieces, std::vector<TokenId> end_tokens)
    : end_tokens_(std::move(end_tokens)) {
  offsets_.push_back(0);
  for (TokenId id = 0; id < static_cast<TokenId>(pieces.size()); ++id) {
    if (!is_end(id)) bytes_ += pieces[static_cast<std::size_t>(id)];
    offsets_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  build();
}

bool Vocabulary::is_end(TokenId token) const {
  return std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
}

std::string_view Vocabulary::piece(TokenId token) const {
  if (token < 0 || token >= size()) return {};
  const auto id = static_cast<std::size_t>(token);
  return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
}

void Vocabulary::build() {
  std::erase_if(end_tokens_, [&](TokenId token) { return token < 0 || token >= size(); });
  for (TokenId id = 0; id < size(); ++id) {
    const std::size_t length = piece(id).size();
    if (length == 0 || length > kMaxPieceBytes) continue;
    tokens_.push_back(id);
    if (piece(id).find_first_not_of(" \t\r\n") == std::string_view::npos)
      blank_tokens_.push_back(id);
  }
  std::sort(tokens_.begin(), tokens_.end(), [&](TokenId a, TokenId b) {
    const int order = piece(a).compare(piece(b));
    return order != 0 ? order < 0 : a < b;
  });
  // Each token adds the nodes that it does not share with the one before it.
  std::vector<std::uint32_t> path;  // nodes of the token before, by depth
  std::string_view before;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = piece(tokens_[i]);
    longest_ = std::max(longest_, text.size());
    std::size_t shared = 0;
    while (shared < before.size() && shared < text.size() && before[shared] == text[shared]) {
      ++shared;
    }
    for (; path.size() > shared; path.pop_back()) {
      nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
    }
    for (std::size_t at = shared; at < text.size(); ++at) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<std::uint32_t>(i), static_cast<std::uint16_t>(at + 1),
                        static_cast<std::uint8_t>(text[at])});
    }
    before = text;
  }
  for (const std::uint32_t node : path)
    nodes_[node].end = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<std::uint32_t>(tokens_.size()), 0, 0});
  link();
}

void Vocabulary::link() {
  const auto each_link = [&](auto&& take) {
    for (std::uint32_t parent = 0; parent + 1 < nodes_.size(); ++parent) {
      for (std::uint32_t node = parent + 1; node < nodes_[parent].end; node = nodes_[node].end)
        take(parent, node);
    }
  };
  each_link([&](std::uint32_t, std::uint32_t node) {
    ++link_begin_[std::size_t{nodes_[node].byte} + 1];
  });
  std::partial_sum(link_begin_.begin(), link_begin_.end(), link_begin_.begin());
  links_.resize(link_begin_.back());
  auto next = link_begin_;
  each_link([&](std::uint32_t parent, std::uint32_t node) {
    links_[next[nodes_[node].byte]++] = {parent, node};
  });
}

}  // namespace saccade::grammar
