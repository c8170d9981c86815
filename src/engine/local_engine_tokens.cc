// Tokens of a step: how rows ask for them, what they are to their answers, and what may follow
// them.
#include <algorithm>
#include <utility>

#include "engine/local_engine.h"

namespace saccade {

void LocalEngine::sample(InFlight& step, const Batch& batch) {
  sampling_rows_.clear();
  guesses_.clear();
  std::vector<TokenId> generated;
  for (const PlannedRows& rows : step.plan.rows) {
    if (!rows.samples) continue;
    Sequence& sequence = *rows.sequence;
    Live& of = live(sequence);
    generated.clear();
    if (sequence.request.sampling.looks_back())
      generated.assign(sequence.tokens.begin() + sequence.prompt_tokens(), sequence.tokens.end());
    // The answer's number of the token that each row gives, whatever steps came before.
    const std::int64_t number = sequence.length() - sequence.prompt_tokens();
    for (std::int64_t ahead = 0; ahead <= rows.drafts; ++ahead) {
      const auto behind = static_cast<std::size_t>(ahead);
      const TokenId guess = ahead > 0 ? sequence.draft[behind - 1] : -1;
      if (ahead > 0) generated.push_back(guess);
      SamplingRow& row =
          sampling_rows_.emplace_back(of.sampler.row(number + ahead, generated, behind));
      if (of.guide) of.sampler.hold(row, masks_.wait(*of.guide));
      row.row = static_cast<std::int64_t>(sampling_rows_.size()) - 1;
      // What follows guesses is planned once it is known.
      if (rows.drafts == 0) row.slot = sequence.kv.slot();
      guesses_.push_back(guess);
    }
  }
  // Rows of padding have logits too.
  const auto rows = static_cast<std::int64_t>(sampling_rows_.size());
  step.ticket = parts_.sampling->launch(step_stream(), batch.logits.row_range(0, rows),
                                        sampling_rows_, guesses_);
}

// The oldest step in flight.
void LocalEngine::settle() {
  InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  std::vector<Sampled> sampled = parts_.sampling->read(step.ticket);
  if (step.done == 0) step.done = clock_.now();
  Answered answered = answer(step.plan, sampled);
  std::vector<std::span<const TokenId>> tokens;
  std::size_t next = 0;
  for (const std::size_t count : answered.counts) {
    tokens.push_back(std::span(answered.tokens).subspan(next, count));
    next += count;
  }
  scheduler_.settle(step.plan, tokens);
  for (const PlannedRows& rows : step.plan.rows) {
    if (!rows.sequence->ended && rows.begin < rows.sequence->prompt_tokens())
      note_progress(*rows.sequence);
  }
  current_.stage_forward.observe(seconds(step.forwarded - step.launched));
  current_.stage_sample.observe(seconds(step.done - step.forwarded));
  const Nanos begun = std::max(step.launched, settled_done_);
  settled_done_ = step.done;
  const double took = seconds(step.done - begun);
  pacer_.forwarded(step.plan, took);
  if (step.plan.tokens > step.plan.decode_rows) {
    current_.prefill_busy_seconds += took;
    current_.prefill_tokens += static_cast<std::uint64_t>(step.plan.tokens - step.plan.decode_rows);
  }
  deliver(step.plan, answered, clock_.now());
  guess_next();
  std::erase_if(departed_, [](const auto& of) { return of->sequence.in_flight == 0; });
}

// all: of the rows that sample, in the plan's order. A guess that its row before gave has come, and
// so has the first that another token was given for; an answer that ends takes no more.
LocalEngine::Answered LocalEngine::answer(const StepPlan& plan, std::vector<Sampled>& all) {
  Answered answered;
  std::size_t next = 0;
  for (const PlannedRows& rows : plan.rows) {
    const auto sampled = std::span(all).subspan(next, static_cast<std::size_t>(rows.sampled()));
    next += sampled.size();
    std::size_t& count = answered.counts.emplace_back(0);
    if (sampled.empty() || rows.sequence->ended) continue;
    Sequence& sequence = *rows.sequence;
    Live& of = live(sequence);
    if (rows.drafts > 0) count_draft(rows, sampled);
    for (bool follows = true; follows && count < sampled.size();) {
      Sampled& at = sampled[count];
      follows = !at.failed && count + 1 < sampled.size() && at.token == sequence.draft[count];
      answered.tokens.push_back(at.token);
      answered.deltas.push_back(take_token(of, at));
      ++count;
      follows = follows && answered.deltas.back().finish == FinishReason::kNone;
    }
  }
  return answered;
}

// The scheduler has the tokens already.
void LocalEngine::deliver(const StepPlan& plan, Answered& answered, Nanos now) {
  auto delta = answered.deltas.begin();
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    Sequence& sequence = *plan.rows[i].sequence;
    bool goes_on = answered.counts[i] > 0;
    for (std::size_t later = answered.counts[i]; later-- > 0; ++delta) {
      Live& of = live(sequence);
      if (delta->finish != FinishReason::kError) count_token(of, now);
      if (delta->finish == FinishReason::kNone) {
        tell(of, std::move(*delta), later);
        continue;
      }
      goes_on = false;
      scheduler_.finish(sequence);
      finish(of, std::move(*delta), now);
    }
    if (!goes_on) continue;
    Live& of = live(sequence);
    if (of.guide) masks_.ask(of.guide);
    if (of.guessable) to_guess_.push_back(&of);
  }
  masks_.start();
}

// A grammar let a token come that could not be sampled: none is left, or the logits are not finite.
void LocalEngine::name_contradiction(Live& of, Delta& delta) {
  const std::span<const std::uint32_t> words = masks_.wait(*of.guide);
  const bool any = std::ranges::any_of(words, [](std::uint32_t word) { return word != 0; });
  if (any && of.sampler.leaves_any(words)) return;
  const SamplingParams& params = of.sequence.request.sampling;
  delta.error_code = ErrorCode::kInvalid;
  if (!any) {
    delta.error = "no token may come next: none of the model's is what the grammar asks for";
    return;
  }
  const bool allowed = !params.allowed_tokens->empty();
  const bool bad = !params.bad_words->empty();
  delta.error =
      fmt::format("no token may come next: of those that the grammar lets come {} {} none",
                  allowed && bad ? "allowed_token_ids and bad_words"
                  : allowed      ? "allowed_token_ids"
                                 : "bad_words",
                  allowed && !bad ? "have" : "leave");
}

Delta LocalEngine::take_token(Live& of, Sampled& sampled) {
  const bool taken =
      !sampled.failed && !of.unscorable && (!of.guide || of.guide->accept(sampled.token));
  if (taken) {
    Delta delta = of.stop.push(sampled.token);
    if (of.sequence.request.sampling.logprobs) {
      delta.logprobs.push_back(std::move(sampled.logprob));
    }
    delta.prompt_logprobs = std::exchange(of.prompt_logprobs, {});
    return delta;
  }
  Delta delta;
  delta.finish = FinishReason::kError;
  delta.error = "the model's logits are not finite";
  if (of.unscorable) return delta;
  if (of.guide && (!sampled.failed || of.guide->stuck())) {
    delta.error = "the answer can be followed no further: its grammar has too many readings of it";
    delta.error_code = ErrorCode::kInvalid;
  } else if (of.guide) {
    name_contradiction(of, delta);
  } else if (!of.sequence.request.sampling.allowed_tokens->empty() ||
             !of.sequence.request.sampling.bad_words->empty()) {
    delta.error = "no token may come next: allowed_token_ids, bad_words and min_tokens leave none";
    delta.error_code = ErrorCode::kInvalid;
  }
  return delta;
}

}  // namespace saccade
