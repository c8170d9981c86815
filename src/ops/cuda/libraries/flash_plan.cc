#include "ops/cuda/libraries/flash_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "base/check.h"

namespace saccade::cuda {
namespace {

constexpr std::int64_t kListsByWork = 7;

// A tile, of all heads.
struct Piece {
  std::int32_t sequence;
  std::int32_t tile;
  std::int64_t cost;
};

std::vector<Piece> dearest_first(const FlashForm& form, std::span<const FlashSequence> sequences) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const FlashSequence& sequence = sequences[i];
    CHECK(sequence.query_count > 0 && sequence.key_count > 0, "a sequence without rows");
    CHECK(!form.paged || sequence.key_count >= sequence.query_count, "{} queries of {} tokens",
          sequence.query_count, sequence.key_count);
    const std::int32_t tiles = (sequence.query_count + form.query_rows - 1) / form.query_rows;
    for (std::int32_t tile = 0; tile < tiles; ++tile)
      pieces.push_back({static_cast<std::int32_t>(i), tile,
                        FlashPlan::cost(form, FlashPlan::keys_of(form, sequence, tile))});
  }
  std::ranges::stable_sort(pieces, std::greater<>(), &Piece::cost);
  return pieces;
}

}  // namespace

std::int64_t FlashPlan::keys_of(const FlashForm& form, const FlashSequence& sequence,
                                std::int64_t tile) {
  if (!form.paged) return sequence.key_count;
  const std::int64_t before = sequence.key_count - sequence.query_count;
  return std::min<std::int64_t>(sequence.key_count, before + (tile + 1) * form.query_rows);
}

FlashPlan::FlashPlan(const FlashForm& form, std::int64_t heads, int blocks,
                     std::span<const FlashSequence> sequences)
    : blocks_(blocks) {
  CHECK(blocks > 0 && heads > 0, "{} blocks, {} heads", blocks, heads);
  const std::vector<Piece> pieces = dearest_first(form, sequences);
  works_ = static_cast<std::int64_t>(pieces.size()) * heads;
  CHECK(works_ <= std::numeric_limits<std::int32_t>::max(), "{} tiles", works_);

  struct Work {
    const Piece* piece;
    std::int32_t head;
  };
  std::vector<std::vector<Work>> of_block(static_cast<std::size_t>(blocks));
  using Load = std::pair<std::int64_t, std::size_t>;  // so far, of which block
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (std::size_t block = 0; block < of_block.size(); ++block) least.emplace(0, block);
  for (const Piece& piece : pieces) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const auto [load, block] = least.top();
      least.pop();
      of_block[block].push_back({&piece, static_cast<std::int32_t>(head)});
      least.emplace(load + piece.cost, block);
    }
  }

  integers_.resize(static_cast<std::size_t>(blocks_ + 1 + kListsByWork * works_));
  std::int32_t* const begins = integers_.data();
  std::int32_t* list[kListsByWork];
  for (std::int64_t i = 0; i < kListsByWork; ++i) list[i] = begins + blocks_ + 1 + i * works_;
  std::int32_t at = 0;
  for (std::size_t block = 0; block < of_block.size(); ++block) {
    begins[block] = at;
    for (const Work& work : of_block[block]) {
      const FlashSequence& sequence = sequences[static_cast<std::size_t>(work.piece->sequence)];
      list[0][at] = work.piece->tile;
      list[1][at] = work.head;
      list[2][at] = work.piece->sequence;
      list[3][at] = sequence.query_begin;
      list[4][at] = sequence.query_count;
      list[5][at] = sequence.key_begin;
      list[6][at] = sequence.key_count;
      ++at;
    }
  }
  begins[blocks_] = at;
}

FlashLists FlashPlan::at(const std::int32_t* data) const {
  const std::int32_t* const first = data + blocks_ + 1;
  return {.work_begins = data,
          .tiles = first,
          .heads = first + works_,
          .sequences = first + 2 * works_,
          .query_begins = first + 3 * works_,
          .query_counts = first + 4 * works_,
          .key_begins = first + 5 * works_,
          .key_counts = first + 6 * works_,
          .works = works_};
}

}  // namespace saccade::cuda
