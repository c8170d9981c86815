#include "engine/step/step_runner.h"

#include <algorithm>
#include <utility>

#include "engine/step/graph_rows.h"

namespace saccade {

StepRunner::StepRunner(EngineParts& parts, Network& network, Device& device, const Clock& clock,
                       const ImagePlanner& images)
    : parts_(parts),
      network_(network),
      device_(device),
      clock_(clock),
      images_(images),
      loras_(network, device, parts.settings.max_loras) {}

const StepPlan& StepRunner::launch(StepPlan plan, ActiveRequests& requests, MaskThread& masks) {
  Step& step = steps_.emplace_back();
  step.plan = std::move(plan);
  step.launched = clock_.now();
  for (const PlannedRows& rows : step.plan.rows) {
    RequestTimes& times = requests.of(*rows.sequence).times;
    if (times.first_scheduled == 0) times.first_scheduled = step.launched;
  }
  const Batch batch = forward(step.plan);
  step.forwarded = clock_.now();
  sample(step, batch, requests, masks);
  score_prompts(step.plan, requests);
  stream().retire();
  if (step.ticket.done.passed()) step.done = clock_.now();
  return step.plan;
}

Batch StepRunner::forward(const StepPlan& plan) {
  const std::int64_t padded = graph_rows_of(plan, parts_.graph_rows);
  if (padded > 0) stream().begin_repeated(padded);
  const Batch batch = parts_.batches->build(stream(), plan,
                                            {.last_tokens = parts_.sampling->last_tokens(),
                                             .pool = *parts_.pool,
                                             .images = images_,
                                             .arena = parts_.arena ? &*parts_.arena : nullptr,
                                             .slots = &loras_},
                                            padded);
  network_.forward(stream(), batch);
  if (padded > 0) stream().end_repeated();
  return batch;
}

void StepRunner::sample(Step& step, const Batch& batch, ActiveRequests& requests,
                        MaskThread& masks) {
  rows_.clear();
  drafts_.clear();
  named_.clear();
  bool names = false;
  std::vector<TokenId> generated;
  for (const PlannedRows& rows : step.plan.rows) {
    if (!rows.samples) continue;
    Sequence& sequence = *rows.sequence;
    ActiveRequest& of = requests.of(sequence);
    generated.clear();
    if (sequence.request.sampling.looks_back())
      generated.assign(sequence.tokens().begin() + sequence.prompt_tokens(),
                       sequence.tokens().end());
    // The answer's number of the token that each row gives, whatever steps came before.
    const std::int64_t number = sequence.length() - sequence.prompt_tokens();
    for (std::int64_t ahead = 0; ahead <= rows.drafts; ++ahead) {
      const auto behind = static_cast<std::size_t>(ahead);
      const TokenId draft = ahead > 0 ? sequence.draft->tokens[behind - 1] : -1;
      if (ahead > 0) generated.push_back(draft);
      SamplingRow& row = rows_.emplace_back(of.sampler.row(number + ahead, generated, behind));
      if (of.guide) of.sampler.hold(row, masks.wait(*of.guide));
      row.row = static_cast<std::int64_t>(rows_.size()) - 1;
      // What follows drafts is planned once it is known.
      if (rows.drafts == 0) row.slot = sequence.kv.slot();
      drafts_.push_back(draft);
      named_.push_back(&*sequence.request.sampling.logprob_token_ids);
      names = names || !named_.back()->empty();
    }
  }
  // Rows of padding have logits too.
  const auto count = static_cast<std::int64_t>(rows_.size());
  const View logits = batch.logits.row_range(0, count);
  if (names) step.named = score_named(logits);
  step.ticket = parts_.sampling->launch(stream(), logits, rows_, drafts_);
}

// As the prompts' tokens are scored, and the engine waits likewise: a row for each token, as many
// at once as the lane has.
std::vector<StepRunner::NamedLogprobs> StepRunner::score_named(View logits) {
  std::vector<SamplingRow> asked;
  for (std::size_t i = 0; i < named_.size(); ++i) {
    for (const TokenId token : *named_[i]) {
      SamplingRow& row = asked.emplace_back();
      row.row = static_cast<std::int64_t>(i);
      row.given = token;
      row.alternatives = 0;
    }
  }
  std::vector<NamedLogprobs> named(named_.size());
  const auto most = static_cast<std::size_t>(parts_.batches->max_logit_rows());
  for (std::size_t begin = 0; begin < asked.size(); begin += most) {
    const auto slice = std::span(asked).subspan(begin, std::min(asked.size() - begin, most));
    const std::vector<Sampled> read =
        parts_.scoring->read(parts_.scoring->launch(stream(), logits, slice));
    for (std::size_t i = 0; i < slice.size(); ++i)
      if (!read[i].failed)
        named[static_cast<std::size_t>(slice[i].row)].emplace_back(read[i].logprob.token,
                                                                   read[i].logprob.logprob);
  }
  return named;
}

// Log-probabilities of prompts' own tokens: of the rows that the step computes anyway, a slice of
// logits at a time. Each slice's logits take the place of the last one's, so that memory is bounded
// by a slice whatever the prompts' lengths are; the engine waits for each.
void StepRunner::score_prompts(const StepPlan& plan, ActiveRequests& requests) {
  std::vector<Scored> wanted;
  std::vector<std::int32_t> rows;
  std::int32_t first_row = 0;
  for (const PlannedRows& planned : plan.rows) {
    Sequence& sequence = *planned.sequence;
    const std::int64_t end = std::min(planned.begin + planned.count, sequence.to_score());
    // What is computed again after a preemption has been scored.
    for (std::int64_t token = std::max(planned.begin, *sequence.scored); token < end; ++token) {
      Scored& scored = wanted.emplace_back();
      scored.of = &requests.of(sequence);
      scored.row.given = sequence.tokens()[static_cast<std::size_t>(token + 1)];
      scored.row.alternatives = *sequence.request.sampling.prompt_logprobs;
      rows.push_back(first_row + static_cast<std::int32_t>(token - planned.begin));
    }
    sequence.scored.edit() = std::max(*sequence.scored, end);
    first_row += static_cast<std::int32_t>(planned.count);
  }
  if (wanted.empty()) return;
  const DeviceInts listed = stream().upload(rows);
  const auto most = static_cast<std::size_t>(parts_.batches->max_logit_rows());
  for (std::size_t begin = 0; begin < wanted.size(); begin += most) {
    const std::size_t count = std::min(wanted.size() - begin, most);
    score(std::span(wanted).subspan(begin, count),
          listed.slice(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(count)));
  }
}

void StepRunner::score(std::span<const Scored> slice, const DeviceInts& rows) {
  const View logits = parts_.batches->logits(static_cast<std::int64_t>(slice.size()));
  network_.more_logits(stream(), rows, logits);
  std::vector<SamplingRow> asked;
  for (const Scored& scored : slice) {
    SamplingRow& row = asked.emplace_back(scored.row);
    row.row = static_cast<std::int64_t>(asked.size()) - 1;
  }
  const SamplingLane::Ticket ticket = parts_.scoring->launch(stream(), logits, asked);
  std::vector<Sampled> read = parts_.scoring->read(ticket);
  for (std::size_t i = 0; i < slice.size(); ++i) {
    ActiveRequest& of = *slice[i].of;
    of.unscorable = of.unscorable || read[i].failed;
    of.prompt_logprobs.push_back(std::move(read[i].logprob));
  }
}

StepRunner::Settled StepRunner::settle() {
  Step step = std::move(steps_.front());
  steps_.pop_front();
  Settled settled;
  settled.sampled = parts_.sampling->read(step.ticket);
  for (std::size_t i = 0; i < step.named.size(); ++i)
    if (!step.named[i].empty()) settled.sampled[i].logprob.top = std::move(step.named[i]);
  if (step.done == 0) step.done = clock_.now();
  const Nanos begun = std::max(step.launched, settled_done_);
  settled_done_ = step.done;
  settled.plan = std::move(step.plan);
  settled.forward_seconds = seconds(step.forwarded - step.launched);
  settled.sample_seconds = seconds(step.done - step.forwarded);
  settled.seconds = seconds(step.done - begun);
  return settled;
}

}  // namespace saccade
