// How blocks of the tensor cores' attention fetch tiles of keys and values: cp.async of 16 bytes,
// eight lanes side by side in a row where it has so many. A thread's rows are looked up once for a
// tile, and serve keys and values.
#pragma once

#include "ops/cuda/attention/attention_rows.h"

namespace saccade::cuda {

constexpr int kAttentionThreads = 128;  // four warps

// n / d for n below 2^31, without a division.
struct Divisor {
  std::uint32_t magic = 0;
  std::uint32_t shift = 0;

  Divisor() = default;
  explicit Divisor(std::int64_t d) {
    while ((std::int64_t{1} << shift) < d) ++shift;
    shift += 31;
    magic = static_cast<std::uint32_t>(
        ((std::uint64_t{1} << shift) + static_cast<std::uint64_t>(d) - 1) /
        static_cast<std::uint64_t>(d));
  }
  SACCADE_DEVICE std::int32_t of(std::int32_t n) const {
    return static_cast<std::int32_t>(std::uint64_t{static_cast<std::uint32_t>(n)} * magic >> shift);
  }
};

// A call, and what all blocks would otherwise compute anew.
struct AttentionTileArgs : AttentionKernelArgs {
  std::int32_t group = 1;          // heads of a key head
  Divisor by_group;                // of a tile's rows
  std::int32_t dim = 0;            // of a head
  Divisor by_block;                // of tokens; without pages all are one block's
  std::int32_t in_block = 0;       // tokens of a block
  std::uint32_t block_bytes = 0;   // from block to block
  std::int32_t token_bytes = 0;    // from token to token of one
  std::int64_t head_bytes = 0;     // from key head to key head
  std::int64_t values_behind = 0;  // bytes from a token's key to its value
  float factor = 1;                // makes scores exponents of 2
  float cap_exponent = 0;          // as soft_capped()
  bool whole_queries = false;      // rows of q begin at multiples of 16 bytes
  bool whole_out = false;          // so do those of out
};

// Of the block, as the compiler knows: below kAttentionThreads.
SACCADE_DEVICE int attention_thread() { return static_cast<int>(threadIdx.x % kAttentionThreads); }

template <int kDim>
struct AttentionSizes {
  static constexpr int kTokens = kDim > 128 ? 32 : 64;  // of a tile of keys
  static constexpr int kTokenTiles = kTokens / 8;
  static constexpr int kQuarterTiles = kTokenTiles / 4;
  static constexpr int kDimTiles = kDim / 8;
  static constexpr int kDimPairs = kDim / 16;
};

// place_of() without divisions.
SACCADE_DEVICE RowPlace tile_row(const AttentionTileArgs& args, const AttentionSequence& sequence,
                                 std::int32_t index) {
  RowPlace place;
  const std::int32_t row = args.by_group.of(index);
  if (row >= sequence.row_count) return place;
  place.inside = true;
  place.row = sequence.row_begin + row;
  place.member = index - row * args.group;
  const std::int32_t* const seen = args.seen + 2 * std::int64_t{place.row};
  place.begin = seen[0];
  place.end = seen[1];
  return place;
}

// The rows of a tile's keys that a thread copies pieces of, and where those lie.
template <typename Form, int kDim>
class KeyRows {
 public:
  using Element = typename Form::Element;
  static constexpr int kTokens = AttentionSizes<kDim>::kTokens;
  static constexpr int kElements = kTokens * Form::kStride;  // of keys, or of values

  SACCADE_DEVICE KeyRows(const AttentionTileArgs& args, const AttentionSequence& sequence,
                         std::int32_t kv_head, std::int32_t begin, std::int32_t end)
      : begin_(begin), tokens_(static_cast<std::uint32_t>(end - begin)) {
    const bool paged = args.pages.base != nullptr;
    first_block_ = paged ? sequence.first_block : 0;
    keys_ = reinterpret_cast<std::uintptr_t>(paged ? args.pages.base : args.k.data) +
            static_cast<std::uintptr_t>(kv_head * args.head_bytes);
    if (!paged)
      keys_ += static_cast<std::uintptr_t>(sequence.first_block) *
               static_cast<std::uintptr_t>(args.token_bytes);
  }

  // Asks for the blocks of tile `t`: they are on their way until place().
  SACCADE_DEVICE void look_up(const AttentionTileArgs& args, std::int32_t t) {
    each_row([&](int i, int row) {
      const std::int32_t token = t * kTokens + row;
      coming_[i] = -1;
      if (row < kTokens && sees(token))
        coming_[i] =
            args.pages.base != nullptr ? args.blocks[first_block_ + args.by_block.of(token)] : 0;
    });
  }
  // Where rows of tile `t`, which was looked up, begin: copy() is about them from now on. One that
  // is not there has any place.
  SACCADE_DEVICE void place(const AttentionTileArgs& args, std::int32_t t) {
    each_row([&](int i, int row) {
      const std::int32_t token = t * kTokens + row;
      const std::int32_t slot = token - args.by_block.of(token) * args.in_block;
      block_[i] = coming_[i];
      at_[i] = keys_ +
               static_cast<std::uint32_t>(slot) *
                   std::uint64_t{static_cast<std::uint32_t>(args.token_bytes)} +
               static_cast<std::uint32_t>(block_[i]) * std::uint64_t{args.block_bytes};
    });
  }
  // Tokens that nobody sees, or that no block holds any more, become zero: what lies there may be
  // anything. `behind`: of the keys' place.
  SACCADE_DEVICE void copy(const AttentionTileArgs& args, std::int64_t behind, Element* to) const {
    copy_by<8, 0>(args, behind, to);
    copy_by<4, rows_by(8)>(args, behind, to);
    copy_by<2, rows_by(8) + rows_by(4)>(args, behind, to);
    copy_by<1, rows_by(8) + rows_by(4) + rows_by(2)>(args, behind, to);
  }
  // Scales of tile `t`, keys' before values', a thread each; of what nobody sees zero.
  SACCADE_DEVICE void copy_scales(const AttentionTileArgs& args, std::int32_t t, float* to) const {
    static_assert(2 * kTokens <= kAttentionThreads);
    const int thread = attention_thread();
    if (thread >= 2 * kTokens) return;
    const KvPages& pages = args.pages;
    const std::int32_t token = t * kTokens + thread % kTokens;
    const std::int32_t index = args.by_block.of(token);
    std::int32_t block = -1;
    if (sees(token)) block = args.blocks[first_block_ + index];
    const auto kv_heads = static_cast<std::int32_t>(pages.kv_heads);
    const std::int32_t head =
        (thread >= kTokens ? kv_heads : 0) + static_cast<std::int32_t>(blockIdx.y);
    const std::int32_t row = head * args.in_block + token - index * args.in_block;
    const std::byte* const from = scale_place(pages, larger(block, 0), row);
    async_copy_word(to + thread, from, block >= 0 ? 4 : 0);
  }

 private:
  static constexpr int kPiece = 16 / static_cast<int>(sizeof(Element));  // head_dim has whole ones
  static constexpr int kPieces = kDim / kPiece;

  SACCADE_DEVICE bool sees(std::int32_t token) const {
    return static_cast<std::uint32_t>(token - begin_) < tokens_;
  }

  // Pieces go by powers of two: eight lanes a row as often as that goes, then four, two, one.
  static constexpr int rows_by(int lanes) {
    if (lanes == 8 ? kPieces < 8 : (kPieces & lanes) == 0) return 0;
    return (kTokens * lanes + kAttentionThreads - 1) / kAttentionThreads;
  }
  static constexpr int kRows = rows_by(8) + rows_by(4) + rows_by(2) + rows_by(1);

  template <int kLanes, int kBefore, typename Do>
  static SACCADE_DEVICE void each_row_by(const Do& visit) {
#pragma unroll
    for (int n = 0; n < rows_by(kLanes); ++n)
      visit(kBefore + n, attention_thread() / kLanes + n * (kAttentionThreads / kLanes));
  }
  template <typename Do>
  static SACCADE_DEVICE void each_row(const Do& visit) {
    each_row_by<8, 0>(visit);
    each_row_by<4, rows_by(8)>(visit);
    each_row_by<2, rows_by(8) + rows_by(4)>(visit);
    each_row_by<1, rows_by(8) + rows_by(4) + rows_by(2)>(visit);
  }
  template <int kLanes, int kBefore>
  SACCADE_DEVICE void copy_by(const AttentionTileArgs& args, std::int64_t behind,
                              Element* to) const {
    constexpr int kBytes = static_cast<int>(sizeof(Element));
    constexpr int kTimes = kLanes == 8 ? kPieces / 8 : 1;
    constexpr int kFirst = kLanes == 8 ? 0 : kPieces / (2 * kLanes) * (2 * kLanes);
    const int col = (kFirst + attention_thread() % kLanes) * kPiece;
    auto* const mine = reinterpret_cast<std::byte*>(to) +
                       (attention_thread() / kLanes * Form::kStride + col) * kBytes;
    each_row_by<kLanes, kBefore>([&](int i, int row) {
      if (row >= kTokens) return;
      const std::uintptr_t from =
          at_[i] + static_cast<std::uintptr_t>(behind) + static_cast<std::uintptr_t>(col * kBytes);
#pragma unroll
      for (int n = 0; n < kTimes; ++n) {
        const bool there = block_[i] >= 0 && col + n * 8 * kPiece < args.dim;
        async_copy(
            mine + (i - kBefore) * (kAttentionThreads / kLanes) * Form::kStride * kBytes + n * 128,
            reinterpret_cast<const void*>(from + static_cast<std::uintptr_t>(n * 128)),
            there ? 16 : 0);
      }
    });
  }

  std::int32_t begin_;
  std::uint32_t tokens_;
  std::int32_t first_block_;
  std::uintptr_t keys_;  // of this key head
  std::int32_t coming_[kRows];
  std::int32_t block_[kRows];
  std::uintptr_t at_[kRows];
};

}  // namespace saccade::cuda
