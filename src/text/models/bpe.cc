#include "text/models/bpe.h"

#include <algorithm>
#include <queue>

#include "base/hash.h"
#include "text/unicode/byte_alphabet.h"
#include "text/unicode/unicode.h"

namespace saccade {
namespace {

// Up to here a scan for the lowest rank beats a heap.
constexpr std::size_t kShortPiece = 48;

std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// Gathers the symbols of a piece. An unknown token waits until the next known character, or the
// next unknown one when these do not fuse; byte tokens pass it by, as they do in the reference.
class SymbolList {
 public:
  SymbolList(std::vector<TokenId>& symbols, TokenId unknown, bool fuse)
      : symbols_(symbols), unknown_(unknown), fuse_(fuse) {}
  void token(TokenId id) {
    flush();
    symbols_.push_back(id);
  }
  void bytes(const std::vector<TokenId>& ids) {
    symbols_.insert(symbols_.end(), ids.begin(), ids.end());
  }
  void unknown() {
    if (unknown_ < 0) return;
    if (!fuse_) flush();
    waiting_ = true;
  }
  void flush() {
    if (waiting_) symbols_.push_back(unknown_);
    waiting_ = false;
  }

 private:
  std::vector<TokenId>& symbols_;
  TokenId unknown_;
  bool fuse_;
  bool waiting_ = false;
};

}  // namespace

Bpe::PairTable::PairTable(std::size_t count) {
  std::size_t slots = 16;
  while (slots < 2 * count) slots *= 2;
  entries_.resize(slots);
}

std::size_t Bpe::PairTable::slot_of(std::uint64_t pair) const {
  const std::size_t mask = entries_.size() - 1;
  std::size_t slot = mix64(pair) & mask;
  while (entries_[slot].pair != kNone && entries_[slot].pair != pair) slot = (slot + 1) & mask;
  return slot;
}

void Bpe::PairTable::set(TokenId left, TokenId right, std::uint32_t rank, TokenId merged) {
  const std::uint64_t pair = pair_key(left, right);
  entries_[slot_of(pair)] = {pair, rank, merged};
}

Bpe::PairTable::Entry Bpe::PairTable::find(TokenId left, TokenId right) const {
  return entries_[slot_of(pair_key(left, right))];
}

Bpe::Bpe(std::shared_ptr<const TokenTable> vocabulary, BpeOptions options, std::size_t merge_count)
    : options_(std::move(options)), vocabulary_(std::move(vocabulary)), pairs_(merge_count) {
  byte_tokens_.fill(-1);
  const auto ids = static_cast<std::size_t>(vocabulary_->end_id());
  whole_ = std::make_unique<std::atomic<std::uint8_t>[]>(ids);
}

Result<std::unique_ptr<Bpe>> Bpe::build(std::shared_ptr<const TokenTable> vocabulary,
                                        const std::vector<Merge>& merges, BpeOptions options) {
  std::unique_ptr<Bpe> bpe(new Bpe(std::move(vocabulary), std::move(options), merges.size()));
  const TokenTable& tokens = *bpe->vocabulary_;
  const std::string& unknown = bpe->options_.unknown_token;
  if (!unknown.empty()) {
    const auto id = tokens.find(unknown);
    if (!id) {
      return fail(ErrorCode::kInvalid, "unk_token \"{}\" is not in the vocabulary", unknown);
    }
    bpe->unknown_ = *id;
  }
  if (bpe->options_.byte_fallback) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (const auto id = tokens.find(fmt::format("<0x{:02X}>", byte)))
        bpe->byte_tokens_[byte] = *id;
    }
  }
  TRY_DO(bpe->add_merges(merges));

  if (!bpe->options_.byte_level) {
    bpe->words_ = bpe->vocabulary_;
    return bpe;
  }
  auto words = std::make_shared<TokenTable>();
  for (TokenId id = 0; id < tokens.end_id(); ++id) {
    if (!tokens.contains(id)) continue;
    const auto bytes = bytes_of_characters(tokens.token(id));
    if (bytes) TRY_DO(words->add(id, *bytes));
  }
  bpe->words_ = std::move(words);
  bpe->plain_bytes_ = true;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::string character;
    append_utf8(character, byte_alphabet()[byte]);
    bpe->byte_symbols_[byte] = bpe->symbol_of(character);
    bpe->plain_bytes_ &= bpe->byte_symbols_[byte].kind == Symbol::Kind::kToken;
  }
  return bpe;
}

Result<void> Bpe::add_merges(const std::vector<Merge>& merges) {
  const std::size_t prefix = options_.continuing_prefix.size();
  const auto id_of = [&](std::string_view token, std::size_t rank) -> Result<TokenId> {
    const auto id = vocabulary_->find(token);
    if (id) return *id;
    return fail(ErrorCode::kInvalid,
                "merge {} needs the token \"{}\", which is not in the vocabulary", rank,
                token.substr(0, 80));
  };
  std::string whole;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    if (right.size() < prefix) {
      return fail(ErrorCode::kInvalid, "merge {}: \"{}\" is shorter than the prefix \"{}\"", rank,
                  right, options_.continuing_prefix);
    }
    whole = left;
    whole += right.substr(prefix);
    TRY(const TokenId left_id, id_of(left, rank));
    TRY(const TokenId right_id, id_of(right, rank));
    TRY(const TokenId whole_id, id_of(whole, rank));
    pairs_.set(left_id, right_id, static_cast<std::uint32_t>(rank), whole_id);
  }
  return {};
}

Bpe::Symbol Bpe::symbol_of(std::string_view character) const {
  if (const auto id = vocabulary_->find(character)) return {Symbol::Kind::kToken, {*id}};
  if (options_.byte_fallback) {
    Symbol bytes{Symbol::Kind::kBytes, {}};
    for (const char c : character) bytes.ids.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
    if (std::find(bytes.ids.begin(), bytes.ids.end(), -1) == bytes.ids.end()) return bytes;
  }
  return {Symbol::Kind::kUnknown, {}};
}

void Bpe::split_bytes(std::string_view piece, std::vector<TokenId>& symbols) const {
  if (plain_bytes_) {
    for (const char c : piece)
      symbols.push_back(byte_symbols_[static_cast<unsigned char>(c)].ids[0]);
    return;
  }
  SymbolList list(symbols, unknown_, options_.fuse_unknown);
  for (const char c : piece) {
    const Symbol& symbol = byte_symbols_[static_cast<unsigned char>(c)];
    if (symbol.kind == Symbol::Kind::kToken) list.token(symbol.ids[0]);
    if (symbol.kind == Symbol::Kind::kBytes) list.bytes(symbol.ids);
    if (symbol.kind == Symbol::Kind::kUnknown) list.unknown();
  }
  list.flush();
}

void Bpe::split_characters(std::string_view piece, std::vector<TokenId>& symbols) const {
  SymbolList list(symbols, unknown_, options_.fuse_unknown);
  const bool decorated = !options_.continuing_prefix.empty() || !options_.end_suffix.empty();
  std::string written;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t length = character_bytes(piece[at]);
    std::string_view character = piece.substr(at, length);
    if (decorated) {
      written = at > 0 ? options_.continuing_prefix : "";
      written += character;
      if (at + length == piece.size()) written += options_.end_suffix;
      character = written;
    }
    at += length;
    if (const auto id = vocabulary_->find(character)) {
      list.token(*id);
      continue;
    }
    const Symbol symbol = symbol_of(character);
    if (symbol.kind == Symbol::Kind::kBytes) {
      list.bytes(symbol.ids);
    } else {
      list.unknown();
    }
  }
  list.flush();
}

void Bpe::tokenize(std::string_view piece, bool /*begins_text*/, std::vector<TokenId>& out) const {
  if (piece.size() <= words_->longest_bytes()) {
    if (const auto id = words_->find(piece)) {
      if (options_.ignore_merges || stays_whole(*id, piece)) {
        out.push_back(*id);
        return;
      }
    }
  }
  split_and_merge(piece, out);
}

void Bpe::split_and_merge(std::string_view piece, std::vector<TokenId>& out) const {
  const std::size_t begin = out.size();
  if (options_.byte_level) {
    split_bytes(piece, out);
  } else {
    split_characters(piece, out);
  }
  const std::span<TokenId> symbols(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
  const std::size_t left =
      symbols.size() <= kShortPiece ? merge_short(symbols) : merge_long(symbols);
  out.resize(begin + left);
}

std::size_t Bpe::max_bytes_per_token() const {
  const bool all_bytes = plain_bytes_ || std::ranges::count(byte_tokens_, -1) == 0;
  if (all_bytes) return words_->longest_bytes();
  constexpr std::size_t kCharacter = 4;
  const bool one_each = unknown_ >= 0 && !options_.fuse_unknown;
  return one_each ? std::max(words_->longest_bytes(), kCharacter) : 0;
}

bool Bpe::stays_whole(TokenId id, std::string_view piece) const {
  std::atomic<std::uint8_t>& known = whole_[static_cast<std::size_t>(id)];
  const std::uint8_t answer = known.load(std::memory_order_relaxed);
  if (answer != kNotKnown) return answer == kWhole;
  std::vector<TokenId> symbols;
  split_and_merge(piece, symbols);
  const bool whole = symbols.size() == 1 && symbols[0] == id;
  known.store(whole ? kWhole : kInParts, std::memory_order_relaxed);
  return whole;
}

std::size_t Bpe::merge_short(std::span<TokenId> symbols) const {
  std::array<PairTable::Entry, kShortPiece> next;  // what symbol i and the one after it become
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) next[i] = pairs_.find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (next[i].rank < next[best].rank) best = i;
    }
    if (next[best].rank == kNoRank) break;
    symbols[best] = next[best].merged;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) symbols[i] = symbols[i + 1];
    for (std::size_t i = best + 1; i + 1 < count; ++i) next[i] = next[i + 1];
    if (best > 0) next[best - 1] = pairs_.find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) next[best] = pairs_.find(symbols[best], symbols[best + 1]);
  }
  return count;
}

std::size_t Bpe::merge_long(std::span<TokenId> symbols) const {
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t left;  // index of the left symbol
    TokenId merged;
    bool operator<(const Candidate& other) const {  // the queue's top is the lowest rank
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  constexpr TokenId kGone = -1;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  std::vector<std::uint32_t> before(count), after(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    before[i] = i == 0 ? kEnd : i - 1;
    after[i] = i + 1 == count ? kEnd : i + 1;
  }
  const auto candidate = [&](std::uint32_t left) -> Candidate {
    const auto entry = pairs_.find(symbols[left], symbols[after[left]]);
    return {entry.rank, left, entry.merged};
  };
  std::vector<Candidate> first;
  first.reserve(count);
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    if (const Candidate next = candidate(i); next.rank != kNoRank) first.push_back(next);
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(first));
  const auto offer = [&](std::uint32_t left) {
    if (const Candidate next = candidate(left); next.rank != kNoRank) queue.push(next);
  };

  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const std::uint32_t left = top.left;
    if (symbols[left] == kGone || after[left] == kEnd) continue;
    const std::uint32_t right = after[left];
    if (pairs_.find(symbols[left], symbols[right]).merged != top.merged) continue;  // out of date
    symbols[left] = top.merged;
    symbols[right] = kGone;
    after[left] = after[right];
    if (after[left] != kEnd) before[after[left]] = left;
    if (before[left] != kEnd) offer(before[left]);
    if (after[left] != kEnd) offer(left);
  }
  const auto end = std::remove(symbols.begin(), symbols.end(), kGone);
  return static_cast<std::size_t>(end - symbols.begin());
}

}  // namespace saccade
