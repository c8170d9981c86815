#include "text/models/unigram.h"

#include <algorithm>
#include <utility>

#include "text/unicode/unicode.h"

namespace saccade {
namespace {

constexpr double kUnknownPenalty = 10.0;  // below the worst token

}  // namespace

Result<std::unique_ptr<Unigram>> Unigram::build(std::shared_ptr<const TokenTable> vocabulary,
                                                std::vector<double> scores,
                                                std::optional<TokenId> unknown,
                                                bool byte_fallback) {
  auto model = std::make_unique<Unigram>();
  if (unknown && !vocabulary->contains(*unknown)) {
    return fail(ErrorCode::kInvalid, "unk_id {} is not in the vocabulary of {} tokens", *unknown,
                vocabulary->size());
  }
  double worst = 0;
  for (std::size_t i = 0; i < scores.size(); ++i)
    worst = i == 0 ? scores[i] : std::min(worst, scores[i]);
  model->vocabulary_ = std::move(vocabulary);
  model->scores_ = std::move(scores);
  model->unknown_ = unknown;
  model->unknown_score_ = worst - kUnknownPenalty;
  model->byte_fallback_ = byte_fallback;
  for (std::size_t byte = 0; byte < 256; ++byte)
    model->byte_tokens_[byte] =
        model->vocabulary_->find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  model->build_trie();
  return model;
}

void Unigram::build_trie() {
  std::vector<TokenId> sorted;
  for (TokenId id = 0; id < vocabulary_->end_id(); ++id) {
    if (vocabulary_->contains(id)) sorted.push_back(id);
  }
  std::sort(sorted.begin(), sorted.end(),
            [&](TokenId a, TokenId b) { return vocabulary_->token(a) < vocabulary_->token(b); });
  // Node by node, breadth first: which of the sorted tokens pass through it, and how deep it is.
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, sorted.size(), 0}};
  nodes_.assign(1, Node{});
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    Range range = ranges[node];
    if (range.begin < range.end && vocabulary_->token(sorted[range.begin]).size() == range.depth) {
      nodes_[node].id = sorted[range.begin++];
    }
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (range.begin < range.end) {
      const char label = vocabulary_->token(sorted[range.begin])[range.depth];
      std::size_t end = range.begin;
      while (end < range.end && vocabulary_->token(sorted[end])[range.depth] == label) ++end;
      nodes_.push_back({0, 0, static_cast<unsigned char>(label), -1});
      ranges.push_back({range.begin, end, range.depth + 1});
      ++nodes_[node].children;
      range.begin = end;
    }
  }
}

const Unigram::Node* Unigram::child(const Node& node, unsigned char label) const {
  const Node* const first = nodes_.data() + node.first_child;
  const Node* const end = first + node.children;
  const Node* const found = std::lower_bound(
      first, end, label, [](const Node& n, unsigned char wanted) { return n.label < wanted; });
  return found != end && found->label == label ? found : nullptr;
}

void Unigram::tokenize(std::string_view piece, bool /*begins_text*/,
                       std::vector<TokenId>& out) const {
  struct Best {  // of the ways to reach a byte
    double score = 0;
    std::size_t from = 0;
    TokenId id = -1;
    bool reached = false;
  };
  constexpr TokenId kNoUnknown = -2;
  const TokenId unknown = unknown_.value_or(kNoUnknown);
  std::vector<Best> best(piece.size() + 1);
  for (std::size_t at = 0; at < piece.size();) {
    const double score_here = best[at].score;
    const auto reach = [&](std::size_t end, double score, TokenId id) {
      Best& target = best[end];
      if (!target.reached || score > target.score) target = {score, at, id, true};
    };
    const std::size_t character = character_bytes(piece[at]);
    bool whole_character = false;  // some token is just this character
    const Node* node = nodes_.data();
    for (std::size_t end = at; end < piece.size();) {
      node = child(*node, static_cast<unsigned char>(piece[end]));
      if (node == nullptr) break;
      ++end;
      if (node->id < 0) continue;
      reach(end, scores_[static_cast<std::size_t>(node->id)] + score_here, node->id);
      whole_character |= end - at == character;
    }
    if (!whole_character) reach(at + character, unknown_score_ + score_here, unknown);
    at += character;
  }

  // Back along the best path; unknown tokens next to each other are one.
  std::vector<std::string_view> tokens;
  for (std::size_t end = piece.size(); end > 0;) {
    std::size_t begin = best[end].from;
    if (best[end].id == unknown) {
      while (begin > 0 && best[begin].id == unknown) begin = best[begin].from;
    }
    tokens.push_back(piece.substr(begin, end - begin));
    end = begin;
  }
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) append_tokens(*token, out);
}

std::size_t Unigram::max_bytes_per_token() const {
  const bool all_bytes = byte_fallback_ && std::ranges::count(byte_tokens_, -1) == 0;
  return all_bytes ? vocabulary_->longest_bytes() : 0;
}

void Unigram::append_tokens(std::string_view text, std::vector<TokenId>& out) const {
  if (const auto id = vocabulary_->find(text)) {
    out.push_back(*id);
    return;
  }
  const auto token_of = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)]; };
  const bool has_bytes = byte_fallback_ && std::all_of(text.begin(), text.end(),
                                                       [&](char c) { return token_of(c) >= 0; });
  if (has_bytes) {
    for (const char c : text) out.push_back(token_of(c));
  } else if (unknown_) {
    out.push_back(*unknown_);
  }
}

}  // namespace saccade
