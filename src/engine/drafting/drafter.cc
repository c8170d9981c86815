#include "engine/drafting/drafter.h"

#include <algorithm>
#include <utility>

namespace saccade {

// Under a grammar the mask of a draft token's follower is not there in time, and rows of a prompt
// that is scored are its own.
DraftingState::DraftingState(const Request& request, const EngineParts& parts)
    : allowed(parts.settings.speculation.max_tokens > 0 && !request.sampling.grammar &&
              !request.sampling.prompt_logprobs) {
  if (allowed && !parts.draft) speculator.emplace(parts.settings.speculation);
}

Drafter::Drafter(const EngineParts& parts, const Scheduler& scheduler, const StepPacer& pacer)
    : model_(parts.draft.get()),
      max_tokens_(parts.settings.speculation.max_tokens),
      scheduler_(scheduler),
      pacer_(pacer),
      choice_(max_tokens_, parts.settings.draft_rows()) {}

void Drafter::follow(Sequence& sequence, DraftingState& record) {
  if (record.allowed) followed_.push_back({&sequence, &record});
}

void Drafter::release(DraftingState& record) {
  if (model_ != nullptr) model_->release(record.reader);
}

void Drafter::propose() {
  if (followed_.empty()) return;
  const double price = pacer_.row_price(scheduler_, max_tokens_);
  if (model_ != nullptr) {
    ask_model(price);
  } else {
    for (const Followed& of : followed_)
      of.record->speculator->next(of.sequence->tokens(), price, of.sequence->draft.edit().tokens);
  }
  followed_.clear();
}

DraftPrices Drafter::prices(double row_price) const {
  const auto all = static_cast<std::int64_t>(followed_.size());
  const auto price = [&](std::int64_t sequences) {
    return pacer_.tokens_in(scheduler_, model_->step_seconds(sequences));
  };
  DraftPrices prices;
  prices.row = row_price;
  prices.step = price(1);
  if (all > 1) prices.sequence = (price(all) - prices.step) / static_cast<double>(all - 1);
  return prices;
}

// None that would be past the end, the answer's or the draft model's; and none for one that has
// been preempted since.
DraftChoice::Candidate Drafter::candidate(const Followed& of) {
  const Sequence& sequence = *of.sequence;
  std::optional<DraftRecord>& drafted = of.record->drafted;
  if (!drafted) drafted.emplace(rate_.rate(), sequence.prompt_tokens());
  drafted->came(sequence.tokens(), &rate_);
  const std::int64_t longest = std::min(sequence.max_length - 1, model_->length());
  return {drafted->rate(), sequence.kv.admitted() ? longest - sequence.length() : 0};
}

void Drafter::ask_model(double row_price) {
  std::vector<DraftChoice::Candidate> candidates;
  for (const Followed& of : followed_) candidates.push_back(candidate(of));
  const std::vector<std::int64_t> counts = choice_.choose(candidates, prices(row_price));
  std::vector<DraftModel::Ask> asked;
  std::vector<Followed> askers;
  for (std::size_t i = 0; i < followed_.size(); ++i) {
    SequenceDraft& draft = followed_[i].sequence->draft.edit();
    draft = {};
    DraftModel::Ask ask;
    if (candidates[i].most <= 0 || !asks(followed_[i], counts[i], ask)) continue;
    draft.awaited = counts[i] > 0;
    asked.push_back(std::move(ask));
    askers.push_back(followed_[i]);
  }
  model_->propose(asked);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    DraftRecord& drafted = *askers[i].record->drafted;
    for (const bool hit : asked[i].hits) drafted.observe(hit, &rate_);
    drafted.proposed(asked[i].draft);
    if (asked[i].read) drafted.has_read();
    SequenceDraft& draft = askers[i].sequence->draft.edit();
    draft.awaited = draft.awaited && asked[i].read;
    draft.tokens = std::move(asked[i].draft);
  }
}

// False: no draft is worth its price, and reading along is not due.
bool Drafter::asks(const Followed& of, std::int64_t count, DraftModel::Ask& ask) const {
  const Sequence& sequence = *of.sequence;
  if (count == 0) {
    const double price = pacer_.tokens_in(
        scheduler_, model_->reading_seconds(of.record->reader.unread(sequence.tokens())));
    if (!of.record->drafted->reads(price)) return false;
  }
  ask.reader = &of.record->reader;
  ask.tokens = sequence.tokens();
  // What follows a token that is being sampled is drafted once that is known.
  ask.count = sequence.progress->unknown > 0 ? 0 : count;
  ask.compare_from = sequence.prompt_tokens();
  return true;
}

}  // namespace saccade
