#include "engine/step/stop_checker.h"

#include <algorithm>
#include <utility>

namespace saccade {
namespace {

// Bytes at the end of `text`, from `begin` on, that could be the start of `stop`.
std::size_t open_suffix(const std::string& text, std::size_t begin, const std::string& stop) {
  const std::size_t most = std::min(stop.size() - 1, text.size() - begin);
  for (std::size_t length = most; length > 0; --length) {
    if (text.compare(text.size() - length, length, stop, 0, length) == 0) return length;
  }
  return 0;
}

}  // namespace

StopChecker::StopChecker(const SamplingParams& params, const Tokenizer* tokenizer,
                         std::vector<TokenId> eos, std::int64_t prompt_tokens,
                         std::int64_t max_length)
    : params_(params),
      eos_(std::move(eos)),
      prompt_tokens_(prompt_tokens),
      max_length_(max_length) {
  if (tokenizer != nullptr) detokenizer_.emplace(*tokenizer, params.skip_special_tokens);
  for (const std::string& stop : *params_.stop)
    longest_stop_ = std::max(longest_stop_, stop.size());
}

Delta StopChecker::push(TokenId token) {
  Delta delta;
  delta.tokens.push_back(token);
  ++generated_;
  const bool ended = ends_by_token(token, delta);
  if (detokenizer_) {
    // The token that ends the answer is not part of its text, unless stop strings are wanted too.
    if (!ended || params_.include_stop_str_in_output) text_ += detokenizer_->push(token);
    if (ended) text_ += detokenizer_->finish();
  }
  // Within min_tokens a stop string may begin, but not end.
  if (generated_ <= params_.min_tokens) searched_from_ = text_.size();
  if (!ended && ends_by_string(delta)) return delta;

  const bool full = generated_ >= params_.max_tokens || prompt_tokens_ + generated_ >= max_length_;
  if (!ended && full) {
    delta.finish = FinishReason::kLength;
    if (detokenizer_) text_ += detokenizer_->finish();
  }
  release_text(delta, delta.finish != FinishReason::kNone);
  return delta;
}

bool StopChecker::ends_by_token(TokenId token, Delta& delta) const {
  // After an end token that a grammar has let come it lets nothing come.
  const bool held = params_.grammar != nullptr;
  const bool is_eos =
      (held || !params_.ignore_eos) && std::find(eos_.begin(), eos_.end(), token) != eos_.end();
  if (generated_ < params_.min_tokens && !(held && is_eos)) return false;
  const auto& stops = *params_.stop_token_ids;
  const bool is_stop = std::find(stops.begin(), stops.end(), token) != stops.end();
  if (is_stop && !is_eos) delta.stop_token = token;
  if (is_stop || is_eos) delta.finish = FinishReason::kStop;
  return is_stop || is_eos;
}

// The stop string that is complete first ends the text, however it came in pieces; of those that
// are complete together, the one that begins first.
bool StopChecker::ends_by_string(Delta& delta) {
  std::size_t begin = std::string::npos;
  std::size_t end = std::string::npos;
  for (const std::string& stop : *params_.stop) {
    if (stop.empty()) continue;
    // A match that ends in what is new.
    const std::size_t from =
        searched_from_ + 1 > stop.size() ? searched_from_ + 1 - stop.size() : 0;
    const std::size_t found = text_.find(stop, from);
    if (found == std::string::npos) continue;
    const std::size_t found_end = found + stop.size();
    if (found_end < end || (found_end == end && found < begin)) {
      begin = found;
      end = found_end;
      delta.stop_string = stop;
    }
  }
  searched_from_ = text_.size();
  if (end == std::string::npos) return false;
  text_.resize(std::max(params_.include_stop_str_in_output ? end : begin, shown_));
  delta.finish = FinishReason::kStop;
  release_text(delta, true);
  return true;
}

void StopChecker::release_text(Delta& delta, bool all) {
  std::size_t held = 0;
  if (!all) {
    for (const std::string& stop : *params_.stop) {
      if (!stop.empty()) held = std::max(held, open_suffix(text_, shown_, stop));
    }
  }
  const std::size_t end = text_.size() - held;
  delta.text = text_.substr(shown_, end - shown_);
  shown_ = end;
  // What is shown is needed only as far back as a stop string can reach.
  if (shown_ > 4096 + longest_stop_) {
    const std::size_t gone = shown_ - longest_stop_;
    text_.erase(0, gone);
    shown_ -= gone;
    searched_from_ -= std::min(searched_from_, gone);
  }
}

}  // namespace saccade
