// Tokens guessed ahead: who is asked for them, and what became of them.
#include <algorithm>

#include "engine/local_engine.h"

namespace saccade {

void LocalEngine::count_draft(const PlannedRows& rows, std::span<const Sampled> sampled) {
  ++current_.spec_decode_num_drafts;
  current_.spec_decode_num_draft_tokens += static_cast<std::uint64_t>(rows.drafts);
  for (std::size_t i = 0; i + 1 < sampled.size(); ++i) {
    if (sampled[i].failed || sampled[i].token != rows.sequence->draft[i]) return;
    ++current_.spec_decode_num_accepted_tokens;
    ++current_.spec_decode_num_accepted_tokens_per_pos[i];
  }
}

void LocalEngine::guess_next() {
  if (to_guess_.empty()) return;
  const double price = pacer_.row_price(scheduler_, parts_.settings.speculation.most_tokens);
  if (parts_.draft) {
    ask_draft(price);
  } else {
    for (Live* of : to_guess_) of->speculator->next(of->sequence.tokens, price, of->sequence.draft);
  }
  to_guess_.clear();
}

DraftPrices LocalEngine::draft_prices(double row_price) const {
  const auto all = static_cast<std::int64_t>(to_guess_.size());
  const auto price = [&](std::int64_t sequences) {
    return pacer_.tokens_in(scheduler_, parts_.draft->step_seconds(sequences));
  };
  DraftPrices prices;
  prices.row = row_price;
  prices.step = price(1);
  if (all > 1) prices.sequence = (price(all) - prices.step) / static_cast<double>(all - 1);
  return prices;
}

void LocalEngine::ask_draft(double row_price) {
  std::vector<DraftChoice::Candidate> candidates;
  for (Live* of : to_guess_) {
    const Sequence& sequence = of->sequence;
    if (!of->drafted) of->drafted.emplace(draft_rate_.rate(), sequence.prompt_tokens());
    of->drafted->came(sequence.tokens, draft_rate_);
    // None that would be past the end, the answer's or the draft model's; and none for one that has
    // been preempted since.
    const std::int64_t longest = std::min(sequence.longest - 1, parts_.draft->length());
    const std::int64_t most = sequence.kv.admitted() ? longest - sequence.length() : 0;
    candidates.push_back({of->drafted->rate(), most});
  }
  const std::vector<std::int64_t> counts =
      draft_choice_.choose(candidates, draft_prices(row_price));
  std::vector<DraftModel::Ask> asks;
  std::vector<Live*> asking;
  for (std::size_t i = 0; i < to_guess_.size(); ++i) {
    Live& of = *to_guess_[i];
    of.sequence.draft.clear();
    of.sequence.awaits_guess = false;
    DraftModel::Ask ask;
    if (candidates[i].most <= 0 || !asks_draft(of, counts[i], ask)) continue;
    of.sequence.awaits_guess = counts[i] > 0;
    asks.push_back(std::move(ask));
    asking.push_back(&of);
  }
  parts_.draft->guess(asks);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    Live& of = *asking[i];
    for (const bool hit : asks[i].hits) of.drafted->observe(hit, draft_rate_);
    of.drafted->guessed(asks[i].guess);
    if (asks[i].read) of.drafted->has_read();
    of.sequence.awaits_guess = of.sequence.awaits_guess && asks[i].read;
    of.sequence.draft = std::move(asks[i].guess);
  }
}

// False: nothing is worth guessing for it, and reading along is not due.
bool LocalEngine::asks_draft(Live& of, std::int64_t count, DraftModel::Ask& ask) {
  const Sequence& sequence = of.sequence;
  if (count == 0) {
    const double price = pacer_.tokens_in(
        scheduler_, parts_.draft->reading_seconds(of.reader.unread(sequence.tokens)));
    if (!of.drafted->reads(price)) return false;
  }
  ask.reader = &of.reader;
  ask.tokens = sequence.tokens;
  // What follows a token that is being sampled is guessed once that is known.
  ask.count = sequence.unknown > 0 ? 0 : count;
  ask.compare_from = sequence.prompt_tokens();
  return true;
}

}  // namespace saccade
