#include "text/pipeline/added_tokens.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "text/unicode/unicode.h"

namespace saccade {
namespace {

constexpr std::size_t kMaxTokenBytes = 1024;
constexpr std::size_t kMaxAllBytes = std::size_t{4} << 20;  // a trie node a byte

Result<AddedToken> parse_token(const json::object& from) {
  AddedToken token;
  TRY(token.content, json::get_string(from, "content"));
  if (token.content.size() > kMaxTokenBytes) {
    return fail(ErrorCode::kTooLarge, "added token of {} bytes, limit {}", token.content.size(),
                kMaxTokenBytes);
  }
  TRY(token.single_word, json::get_bool_or(from, "single_word", false));
  TRY(token.lstrip, json::get_bool_or(from, "lstrip", false));
  TRY(token.rstrip, json::get_bool_or(from, "rstrip", false));
  TRY(token.special, json::get_bool_or(from, "special", false));
  TRY(token.normalized, json::get_bool_or(from, "normalized", !token.special));
  return token;
}

}  // namespace

Result<std::vector<AddedTokenEntry>> parse_added_tokens(const json::value& added_tokens) {
  if (!added_tokens.is_array()) {
    return fail(ErrorCode::kInvalid, "added_tokens is {}, an array is required",
                json::kind_name(added_tokens));
  }
  std::vector<AddedTokenEntry> entries;
  for (const json::value& item : added_tokens.get_array()) {
    if (!item.is_object()) {
      return fail(ErrorCode::kInvalid, "added_tokens holds {}, an object is required",
                  json::kind_name(item));
    }
    AddedTokenEntry entry;
    TRY(entry.id, json::get_int(item.get_object(), "id"));
    TRY(entry.token, parse_token(item.get_object()));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::vector<AddedTokenEntry>> parse_added_tokens_decoder(const json::value& decoder) {
  if (!decoder.is_object()) {
    return fail(ErrorCode::kInvalid, "added_tokens_decoder is {}, an object is required",
                json::kind_name(decoder));
  }
  std::vector<AddedTokenEntry> entries;
  for (const auto& [key, item] : decoder.get_object()) {
    AddedTokenEntry entry;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), entry.id);
    if (code != std::errc{} || end != key.data() + key.size() || !item.is_object()) {
      return fail(ErrorCode::kInvalid, "added_tokens_decoder: \"{}\" is not an id with an object",
                  std::string_view(key.data(), key.size()).substr(0, 80));
    }
    TRY(entry.token, parse_token(item.get_object()));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return entries;
}

void TokenMatcher::add(std::string_view text, TokenId value) {
  if (text.empty()) return;
  begins_[static_cast<unsigned char>(text[0])] = true;
  std::uint32_t node = 0;
  for (const char c : text) {
    auto& next = nodes_[node].next;
    const auto edge = std::find_if(next.begin(), next.end(), [c](auto& e) { return e.first == c; });
    if (edge != next.end()) {
      node = edge->second;
    } else {
      const auto made = static_cast<std::uint32_t>(nodes_.size());
      next.emplace_back(c, made);
      nodes_.emplace_back();  // `next` is gone after this
      node = made;
    }
  }
  if (nodes_[node].value < 0) nodes_[node].value = value;
}

std::optional<TokenMatcher::Match> TokenMatcher::find(std::string_view text,
                                                      std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    Match longest;
    std::uint32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      const auto& next = nodes_[node].next;
      const auto edge =
          std::find_if(next.begin(), next.end(), [&](auto& e) { return e.first == text[at]; });
      if (edge == next.end()) break;
      node = edge->second;
      if (nodes_[node].value >= 0) longest = {begin, at + 1, nodes_[node].value};
    }
    if (longest.value >= 0) return longest;
  }
  return std::nullopt;
}

Result<AddedTokens> AddedTokens::build(const std::vector<AddedTokenEntry>& entries,
                                       const TokenTable& vocabulary, const Normalizer* normalizer,
                                       Ids ids) {
  AddedTokens added;
  std::size_t all_bytes = 0;
  std::unordered_map<std::int64_t, std::string_view> said;  // ids in the file
  for (const AddedTokenEntry& entry : entries) {
    all_bytes += entry.token.content.size();
    const auto [first, fresh] = said.emplace(entry.id, entry.token.content);
    if (!fresh && first->second != entry.token.content) {
      return fail(ErrorCode::kInvalid, "id {} is given to both added tokens \"{}\" and \"{}\"",
                  entry.id, first->second, entry.token.content);
    }
    if (entry.id < 0 || entry.id > TokenTable::kMaxId) {
      return fail(ErrorCode::kInvalid, "added token \"{}\" has id {}, allowed is 0 to {}",
                  entry.token.content, entry.id, TokenTable::kMaxId);
    }
  }
  if (all_bytes > kMaxAllBytes) {
    return fail(ErrorCode::kTooLarge, "added tokens have {} bytes together, limit {}", all_bytes,
                kMaxAllBytes);
  }

  const auto model_size = static_cast<TokenId>(vocabulary.size());
  TokenId next_id = model_size;
  for (const AddedTokenEntry& entry : entries) {
    const AddedToken& token = entry.token;
    if (token.content.empty()) continue;
    if (token.special) added.special_.insert(token.content);
    const auto known = added.find(token.content);
    if (known && added.by_id_.at(*known) == token) continue;
    const auto in_vocabulary = vocabulary.find(token.content);
    const TokenId id = known                    ? *known
                       : in_vocabulary          ? *in_vocabulary
                       : ids == Ids::kAsWritten ? static_cast<TokenId>(entry.id)
                                                : next_id++;
    if (id != entry.id) {
      log::warning("added token \"{}\" says id {}, its id is {}", token.content, entry.id, id);
    }
    added.by_content_[token.content] = id;
    added.by_id_[id] = token;
    added.end_id_ = std::max(added.end_id_, id + 1);
  }

  // Special tokens come first, so that they win over an equal string.
  for (const bool special : {true, false}) {
    for (const AddedTokenEntry& entry : entries) {
      if (entry.token.content.empty() || added.is_special(entry.token.content) != special) continue;
      const TokenId id = added.by_content_.at(entry.token.content);
      std::string content = entry.token.content;
      if (entry.token.normalized && normalizer != nullptr) normalizer->apply(content);
      if (content.size() > 4 * kMaxTokenBytes) {
        return fail(ErrorCode::kTooLarge, "added token \"{}\" has {} bytes when normalised",
                    entry.token.content.substr(0, 80), content.size());
      }
      (entry.token.normalized ? added.normalized_ : added.given_).add(content, id);
    }
  }
  return added;
}

std::optional<TokenId> AddedTokens::find(std::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  if (it == by_content_.end()) return std::nullopt;
  return it->second;
}

const AddedToken* AddedTokens::token(TokenId id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &it->second;
}

bool AddedTokens::is_special(std::string_view content) const {
  return special_.contains(std::string(content));
}

void AddedTokens::split(const TokenMatcher& matcher, std::string_view text, bool parse_special,
                        std::vector<Segment>& out) const {
  std::size_t done = 0;
  std::size_t from = 0;
  const auto ends_with_word = [](std::string_view before) {
    if (before.empty()) return false;
    std::size_t last = previous_character(before, before.size());
    return is_word_character(next_character(before, last));
  };
  const auto starts_with_word = [](std::string_view after) {
    std::size_t at = 0;
    return !after.empty() && is_word_character(next_character(after, at));
  };
  while (!matcher.empty()) {
    const auto match = matcher.find(text, from);
    if (!match) break;
    from = match->end;  // a token that does not count still hides what overlaps it
    const AddedToken& token = by_id_.at(match->value);
    if (!parse_special && is_special(token.content)) continue;
    if (token.single_word && (ends_with_word(text.substr(0, match->begin)) ||
                              starts_with_word(text.substr(match->end)))) {
      continue;
    }
    std::size_t begin = match->begin, end = match->end;
    while (token.lstrip && begin > done) {
      const std::size_t previous = previous_character(text, begin);
      std::size_t at = previous;
      if (!is_white_space(next_character(text, at))) break;
      begin = previous;
    }
    begin = std::max(begin, done);
    while (token.rstrip && end < text.size()) {
      std::size_t at = end;
      if (!is_white_space(next_character(text, at))) break;
      end = at;
    }
    if (begin > done) out.push_back({text.substr(done, begin - done), -1});
    out.push_back({text.substr(begin, end - begin), match->value});
    done = end;
  }
  if (done < text.size()) out.push_back({text.substr(done), -1});
}

}  // namespace saccade
