// How blocks of the tensor cores' attention fetch tiles of keys and values: cp.async of 16 bytes,
// eight lanes side by side in a row where it has so many. A thread's rows are looked up once for a
// tile, and serve keys and values.
#pragma once

#include "ops/cuda/attention_rows.h"

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
  Divisor by_block;                // of tokens
  std::int32_t group = 1;          // heads of a key head
  Divisor by_group;                // of a tile's rows
  float factor = 1;                // makes scores exponents of 2
  std::int64_t values_behind = 0;  // bytes from a token's key to its value
  float cap_exponent = 0;          // as soft_capped()
  bool whole_queries = false;      // of q: rows begin at multiples of 16 bytes
};

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
      : begin_(begin), end_(end), first_block_(sequence.first_block) {
    const KvPages& pages = args.pages;
    constexpr std::int64_t kBytes = sizeof(Element);
    if (pages.base != nullptr) {
      keys_ = pages.base + kv_head * pages.block_size * pages.head_dim * kBytes;
    } else {
      const std::int64_t first = sequence.first_block * args.k.stride + kv_head * args.head_dim;
      keys_ = static_cast<const std::byte*>(args.k.data) + first * kBytes;
    }
  }

  // Asks for the blocks of tile `t`: they are on their way until place().
  SACCADE_DEVICE void look_up(const AttentionTileArgs& args, std::int32_t t) {
    each_row([&](int i, int row) {
      const std::int32_t token = t * kTokens + row;
      const bool inside = row < kTokens && token >= begin_ && token < end_;
      block_[i] = inside ? 0 : -1;
      if (inside && args.pages.base != nullptr)
        block_[i] = args.blocks[first_block_ + args.by_block.of(token)];
    });
  }
  // Where rows of the tile that was looked up begin.
  SACCADE_DEVICE void place(const AttentionTileArgs& args, std::int32_t t) {
    each_row([&](int i, int row) {
      const std::int32_t token = t * kTokens + row;
      offset_[i] = -1;
      if (block_[i] < 0) return;
      constexpr int kBytes = static_cast<int>(sizeof(Element));
      if (args.pages.base == nullptr) {
        offset_[i] = std::int64_t{token} * (static_cast<std::int32_t>(args.k.stride) * kBytes);
        return;
      }
      const std::int32_t slot =
          token - args.by_block.of(token) * static_cast<std::int32_t>(args.pages.block_size);
      offset_[i] = block_[i] * args.pages.block_stride +
                   slot * (static_cast<std::int32_t>(args.head_dim) * kBytes);
    });
  }
  // Tokens that nobody sees, or that no block holds any more, become zero: what lies there may be
  // anything.
  SACCADE_DEVICE void copy(const AttentionTileArgs& args, bool values, Element* to) const {
    const std::byte* const from = values ? keys_ + args.values_behind : keys_;
    each_row([&](int i, int row) {
      if (row >= kTokens) return;
      each_piece(i, [&](int piece) {
        const int col = piece * kPiece;
        const bool there = offset_[i] >= 0 && col < args.head_dim;
        // What is not read has to be aligned as well.
        async_copy(to + row * Form::kStride + col,
                   there ? from + offset_[i] + std::int64_t{col} * std::int64_t{sizeof(Element)}
                         : from_aligned(args),
                   there ? 16 : 0);
      });
    });
  }

  // Scales of tile `t`, keys' before values', a thread each; of what nobody sees zero.
  SACCADE_DEVICE void copy_scales(const AttentionTileArgs& args, std::int32_t t, float* to) const {
    static_assert(2 * kTokens <= kAttentionThreads);
    if (thread() >= 2 * kTokens) return;
    const KvPages& pages = args.pages;
    const std::int32_t token = t * kTokens + thread() % kTokens;
    const std::byte* from = pages.base;
    bool there = false;
    if (token >= begin_ && token < end_) {
      const std::int32_t index = args.by_block.of(token);
      const std::int64_t block = args.blocks[first_block_ + index];
      const std::int64_t slot = token - index * pages.block_size;
      const std::int64_t head = (thread() >= kTokens ? pages.kv_heads : 0) + blockIdx.y;
      there = block >= 0;
      if (there) from = scale_place(pages, block, head * pages.block_size + slot);
    }
    async_copy_word(to + thread(), from, there ? 4 : 0);
  }

 private:
  static constexpr int kPiece = 16 / static_cast<int>(sizeof(Element));  // head_dim has whole ones
  static constexpr int kPieces = kDim / kPiece;

  static SACCADE_DEVICE int thread() { return static_cast<int>(threadIdx.x); }

  // Pieces go by powers of two: eight lanes a row as often as that goes, then four, two, one.
  static constexpr int rows_by(int lanes) {
    if (lanes == 8 ? kPieces < 8 : (kPieces & lanes) == 0) return 0;
    return (kTokens * lanes + kAttentionThreads - 1) / kAttentionThreads;
  }
  static constexpr int kRows = rows_by(8) + rows_by(4) + rows_by(2) + rows_by(1);

  template <int kLanes, int kBefore, typename Do>
  SACCADE_DEVICE void each_row_by(const Do& visit) const {
#pragma unroll
    for (int n = 0; n < rows_by(kLanes); ++n)
      visit(kBefore + n, thread() / kLanes + n * (kAttentionThreads / kLanes));
  }
  template <typename Do>
  SACCADE_DEVICE void each_row(const Do& visit) const {
    each_row_by<8, 0>(visit);
    each_row_by<4, rows_by(8)>(visit);
    each_row_by<2, rows_by(8) + rows_by(4)>(visit);
    each_row_by<1, rows_by(8) + rows_by(4) + rows_by(2)>(visit);
  }
  // Of a thread's row `i`.
  template <typename Do>
  SACCADE_DEVICE void each_piece(int i, const Do& visit) const {
    if (i < rows_by(8)) {
#pragma unroll
      for (int n = 0; n < kPieces / 8; ++n) visit(thread() % 8 + n * 8);
    } else if (i < rows_by(8) + rows_by(4)) {
      visit(kPieces / 8 * 8 + thread() % 4);
    } else if (i < rows_by(8) + rows_by(4) + rows_by(2)) {
      visit(kPieces / 4 * 4 + thread() % 2);
    } else {
      visit(kPieces - 1);
    }
  }
  SACCADE_DEVICE const void* from_aligned(const AttentionTileArgs& args) const {
    return args.pages.base != nullptr ? args.pages.base : args.k.data;
  }

  std::int32_t begin_;
  std::int32_t end_;
  std::int32_t first_block_;
  const std::byte* keys_;  // of this key head
  std::int32_t block_[kRows];
  std::int64_t offset_[kRows];
};

}  // namespace saccade::cuda
