#include "engine/sampling_lane.h"

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
                                          std::span<const SamplingRow> rows) {
  Ticket ticket;
  ticket.place = std::exchange(next_, (next_ + 1) % places_.size());
  ticket.rows = static_cast<std::int64_t>(rows.size());
  const View stats = stats_.view(DType::kU8, logits.rows(), sizeof(RowStats));
  stream.row_stats(logits, stats);
  SampleArgs args = {.logits = logits,
                     .stats = stats,
                     .rows = rows,
                     .last_tokens = last_tokens(),
                     .sampled = sampled_.view(DType::kU8, ticket.rows, sizeof(SampledToken)),
                     .alternatives = {}};
  bool listed = false;
  for (const SamplingRow& row : rows) {
    ticket.logprobs.push_back(row.alternatives >= 0);
    listed = listed || row.alternatives > 0;
  }
  if (listed) args.alternatives = alternatives_.view(DType::kU8, ticket.rows, alternative_bytes());
  stream.sample(args);
  const Place& place = places_[ticket.place];
  stream.download(args.sampled, place.sampled.view(DType::kU8, ticket.rows, sizeof(SampledToken)));
  if (listed) {
    stream.download(args.alternatives,
                    place.alternatives.view(DType::kU8, ticket.rows, alternative_bytes()));
  }
  ticket.done = stream.record();
  return ticket;
}

std::vector<Sampled> SamplingLane::read(const Ticket& ticket) {
  ticket.done.synchronize();
  const Place& place = places_[ticket.place];
  const View tokens = place.sampled.view(DType::kU8, ticket.rows, sizeof(SampledToken));
  std::vector<Sampled> read(static_cast<std::size_t>(ticket.rows));
  for (std::size_t i = 0; i < read.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    SampledToken token;
    std::memcpy(&token, tokens.row<std::uint8_t>(row), sizeof(token));
    read[i].token = token.token;
    read[i].failed = token.failed != 0;
    if (read[i].failed || !ticket.logprobs[i]) continue;
    read[i].logprob.token = token.token;
    read[i].logprob.logprob = token.logprob;
    read[i].logprob.rank = token.rank;
    if (token.alternatives == 0) continue;
    const View lists = place.alternatives.view(DType::kU8, ticket.rows, alternative_bytes());
    for (std::int32_t which = 0; which < token.alternatives; ++which) {
      TokenLogit at;
      std::memcpy(&at, lists.row<std::uint8_t>(row) + static_cast<std::size_t>(which) * sizeof(at),
                  sizeof(at));
      read[i].logprob.top.emplace_back(at.token, at.logprob);
    }
  }
  return read;
}

}  // namespace saccade
