// Log-probabilities of prompts' own tokens: of the rows that a step computes anyway, a slice of
// logits at a time.
#include <algorithm>
#include <utility>

#include "engine/local_engine.h"

namespace saccade {

// Of the step that has just been launched. Each slice's logits take the place of the last one's, so
// that memory is bounded by a slice whatever the prompts' lengths are; the engine waits for each.
void LocalEngine::score_prompts(const StepPlan& plan) {
  struct Scored {
    Live* of = nullptr;
    SamplingRow row;
  };
  std::vector<Scored> wanted;
  std::vector<std::int32_t> rows;
  std::int32_t first_row = 0;
  for (const PlannedRows& planned : plan.rows) {
    Sequence& sequence = *planned.sequence;
    const std::int64_t end = std::min(planned.begin + planned.count, sequence.to_score());
    // What is computed again after a preemption has been scored.
    for (std::int64_t token = std::max(planned.begin, sequence.scored); token < end; ++token) {
      Scored& scored = wanted.emplace_back();
      scored.of = &live(sequence);
      scored.row.given = sequence.tokens[static_cast<std::size_t>(token + 1)];
      scored.row.alternatives = *sequence.request.sampling.prompt_logprobs;
      rows.push_back(first_row + static_cast<std::int32_t>(token - planned.begin));
    }
    sequence.scored = std::max(sequence.scored, end);
    first_row += static_cast<std::int32_t>(planned.count);
  }
  if (wanted.empty()) return;
  Stream& stream = step_stream();
  const DeviceInts listed = stream.upload(rows);
  const auto all = static_cast<std::int64_t>(wanted.size());
  std::vector<SamplingRow> slice;
  for (std::int64_t begin = 0; begin < all; begin += parts_.batches->max_logit_rows()) {
    const std::int64_t count = std::min(all - begin, parts_.batches->max_logit_rows());
    const View logits = parts_.batches->logits(count);
    network_.more_logits(stream, listed.slice(begin, count), logits);
    slice.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      SamplingRow& row = slice.emplace_back(wanted[static_cast<std::size_t>(begin + i)].row);
      row.row = i;
    }
    const SamplingLane::Ticket ticket = parts_.scoring->launch(stream, logits, slice);
    std::vector<Sampled> read = parts_.scoring->read(ticket);
    for (std::int64_t i = 0; i < count; ++i) {
      Live& of = *wanted[static_cast<std::size_t>(begin + i)].of;
      Sampled& sampled = read[static_cast<std::size_t>(i)];
      of.unscorable = of.unscorable || sampled.failed;
      of.prompt_logprobs.push_back(std::move(sampled.logprob));
    }
  }
}

}  // namespace saccade
