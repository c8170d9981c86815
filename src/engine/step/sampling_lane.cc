#include "engine/step/sampling_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace saccade {

Result<SamplingLane> SamplingLane::create(Device& device, std::int64_t rows, int alternatives,
                                          int steps) {
  SamplingLane lane(rows, alternatives);
  const auto count = static_cast<std::size_t>(rows);
  const std::size_t listed =
      std::max<std::size_t>(1, count * static_cast<std::size_t>(lane.alternative_bytes()));
  TRY(lane.stats_, device.allocate(count * sizeof(RowStats)));
  TRY(lane.sampled_, device.allocate(count * sizeof(SampledToken)));
  TRY(lane.alternatives_, device.allocate(listed));
  TRY(lane.last_tokens_, device.allocate(count * sizeof(TokenId)));
  for (int step = 0; step < steps; ++step) {
    Place place;
    TRY(place.sampled, device.allocate(count * sizeof(SampledToken), Space::kHost));
    TRY(place.alternatives, device.allocate(listed, Space::kHost));
    lane.places_.push_back(std::move(place));
  }
  return lane;
}

SamplingLane::Ticket SamplingLane::launch(Stream& stream, View logits,
                                          std::span<const SamplingRow> rows,
                                          std::span<const TokenId> drafts) {
  Ticket ticket;
  ticket.place = std::exchange(next_, (next_ + 1) % places_.size());
  ticket.at.assign(rows.size(), -1);
  filled_ = 0;
  const View stats = stats_.view(DType::kU8, logits.rows(), sizeof(RowStats));
  stream.row_stats(logits, stats);
  const SampleArgs args = {.logits = logits,
                           .stats = stats,
                           .rows = rows,
                           .last_tokens = last_tokens(),
                           .sampled = {},
                           .alternatives = {}};
  std::vector<std::size_t> now;
  std::vector<std::size_t> later;  // what they count depends on the row before
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ticket.logprobs.push_back(rows[i].alternatives >= 0);
    const bool counts_on = i < drafts.size() && drafts[i] >= 0 && rows[i].counts != nullptr;
    (counts_on ? later : now).push_back(i);
  }
  choose(stream, args, now, ticket);
  while (!later.empty()) {
    ticket.done.synchronize();
    now.clear();
    std::vector<std::size_t> rest;
    for (const std::size_t i : later) {
      if (ticket.at[i - 1] >= 0) {
        const SampledToken before = read_token(ticket, i - 1);
        if (before.failed == 0 && before.token == drafts[i]) now.push_back(i);
      } else if (std::ranges::find(rest, i - 1) != rest.end() ||
                 std::ranges::find(now, i - 1) != now.end()) {
        rest.push_back(i);
      }
    }
    later = std::move(rest);
    if (!now.empty()) choose(stream, args, now, ticket);
  }
  return ticket;
}

// Rows `which` of args, into the next rows of the ticket's place.
void SamplingLane::choose(Stream& stream, SampleArgs args, std::span<const std::size_t> which,
                          Ticket& ticket) {
  chosen_.clear();
  bool listed = false;
  const std::int64_t first = filled_;
  for (const std::size_t i : which) {
    chosen_.push_back(args.rows[i]);
    listed = listed || args.rows[i].alternatives > 0;
    ticket.at[i] = filled_++;
  }
  args.rows = chosen_;
  const auto part = [&](const Buffer& of, std::int64_t row_bytes) {
    return of.view(DType::kU8, filled_, row_bytes).row_range(first, filled_);
  };
  const Place& place = places_[ticket.place];
  args.sampled = part(sampled_, sizeof(SampledToken));
  if (listed) args.alternatives = part(alternatives_, alternative_bytes());
  stream.sample(args);
  stream.download(args.sampled, part(place.sampled, sizeof(SampledToken)));
  if (listed) stream.download(args.alternatives, part(place.alternatives, alternative_bytes()));
  ticket.done = stream.record();
}

SampledToken SamplingLane::read_token(const Ticket& ticket, std::size_t row) const {
  const View all = places_[ticket.place].sampled.view(DType::kU8, rows_, sizeof(SampledToken));
  SampledToken token;
  std::memcpy(&token, all.row<std::uint8_t>(ticket.at[row]), sizeof(token));
  return token;
}

std::vector<Sampled> SamplingLane::read(const Ticket& ticket) {
  ticket.done.synchronize();
  const Place& place = places_[ticket.place];
  std::vector<Sampled> read(ticket.at.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (ticket.at[i] < 0) {
      read[i].failed = true;
      continue;
    }
    const SampledToken token = read_token(ticket, i);
    read[i].token = token.token;
    read[i].failed = token.failed != 0;
    if (read[i].failed || !ticket.logprobs[i]) continue;
    read[i].logprob.token = token.token;
    read[i].logprob.logprob = token.logprob;
    read[i].logprob.rank = token.rank;
    if (token.alternatives == 0) continue;
    const View lists = place.alternatives.view(DType::kU8, rows_, alternative_bytes());
    for (std::int32_t which = 0; which < token.alternatives; ++which) {
      TokenLogit at;
      std::memcpy(
          &at, lists.row<std::uint8_t>(ticket.at[i]) + static_cast<std::size_t>(which) * sizeof(at),
          sizeof(at));
      read[i].logprob.top.emplace_back(at.token, at.logprob);
    }
  }
  return read;
}

}  // namespace saccade
