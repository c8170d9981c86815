// What the products share: which rows a block takes, how rows of bf16 come to shared memory, and
// what becomes of a sum.
#pragma once

#include "ops/cuda/layers/expert_kernels.h"
#include "ops/cuda/rows/activate.h"
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {

// A block's tile of y. Blocks begin in the order of their numbers: of kBandTiles tiles of rows all
// take one tile of outputs before any takes the next, so that those who share a part of the weight
// read it at the same time, and the band's rows of x stay in the L2 cache meanwhile.
struct BlockTile {
  static constexpr unsigned kBandTiles = 16;
  std::int64_t row = 0;
  std::int64_t col = blockIdx.x;

  SACCADE_DEVICE BlockTile() {
    if (gridDim.y == 1) return;
    const unsigned at = blockIdx.y * gridDim.x + blockIdx.x;
    const unsigned first = at / (kBandTiles * gridDim.x) * kBandTiles;
    const unsigned rows = smaller(kBandTiles, gridDim.y - first);
    const unsigned in_band = at - first * gridDim.x;
    row = first + in_band % rows;
    col = in_band / rows;
  }
};

// The rows of y that are a tile's, and the weight that they go by.
template <bool kGrouped>
struct BlockRows {
  std::int64_t first = 0;
  std::int64_t end = 0;  // nothing is written from here on; at first: there are none
  std::int32_t group = 0;
  const std::int32_t* x_rows = nullptr;

  SACCADE_DEVICE BlockRows(std::int64_t at, std::int64_t rows, const GemmGroups& groups,
                           int tile_rows) {
    if constexpr (kGrouped) {
      const GroupTile tile = groups.tiles[at];
      group = tile.group;
      first = tile.first;
      end = groups.weights[group].data != nullptr ? first + tile.count : first;
      x_rows = groups.x_rows;
    } else {
      first = at * tile_rows;
      end = smaller(first + tile_rows, rows);
    }
  }
  SACCADE_DEVICE bool none() const { return kGrouped && end == first; }
  // The row of x that row `row` of y is made of.
  SACCADE_DEVICE std::int64_t of_x(std::int64_t row) const {
    if constexpr (kGrouped) {
      if (x_rows != nullptr) return x_rows[row];
    }
    return row;
  }
};

// What one thread fetches of some rows, stage by stage: pieces of 16 bytes at the same places of
// each stage. Rows are looked up once; from stage to stage addresses only advance. kCount rows, of
// which those in [first, end) are there. The others' places get another row's numbers (kClamped) or
// nothing: they are operands of outputs that nobody writes.
template <int kCount, int kThreads, int kDepth, int kStride, bool kClamped>
class RowPieces {
 public:
  static constexpr int kOfRow = kDepth / 8;
  static constexpr int kEvery = kThreads / kOfRow;
  static constexpr int kRounds = kCount / kEvery;
  static_assert(kThreads % kOfRow == 0 && kCount % kEvery == 0 && kRounds <= 32);

  // Which of a row's pieces in a stage a thread has.
  static SACCADE_DEVICE int piece(int thread) { return thread % kOfRow; }

  // From column `begin` on, to `place` in each row of a stage. Rows begin 16 bytes aligned.
  template <typename RowOf>
  SACCADE_DEVICE RowPieces(int thread, int place, const Bf16* data, std::int64_t stride,
                           std::int64_t first, std::int64_t end, std::int64_t begin,
                           const RowOf& of)
      : col_(piece(thread) * 8), to_(thread / kOfRow * kStride + place) {
#pragma unroll
    for (int n = 0; n < kRounds; ++n) {
      const std::int64_t row = first + thread / kOfRow + n * kEvery;
      from_[n] = data + of(smaller(row, end - 1)) * stride + begin + col_;
      if (row < end) there_ |= 1U << n;
    }
  }
  template <typename RowOf>
  SACCADE_DEVICE RowPieces(int thread, const Bf16* data, std::int64_t stride, std::int64_t first,
                           std::int64_t end, std::int64_t begin, const RowOf& of)
      : RowPieces(thread, piece(thread) * 8, data, stride, first, end, begin, of) {}

  // The next kDepth columns of each row, piece n of kRounds, each once; `go`: or none of them.
  SACCADE_DEVICE void fetch(Bf16* stage, int n, bool go = true) {
    if (go && (kClamped || (there_ >> n & 1U) != 0))
      async_copy(stage + to_ + n * kEvery * kStride, from_[n]);
    from_[n] += kDepth;
  }
  SACCADE_DEVICE void fetch(Bf16* stage) {
#pragma unroll
    for (int n = 0; n < kRounds; ++n) fetch(stage, n);
  }

  // The last `left` of them, and zeros.
  SACCADE_DEVICE void fetch_last(Bf16* stage, int left) const {
    const int bytes = larger(0, smaller(16, 2 * (left - col_)));
#pragma unroll
    for (int n = 0; n < kRounds; ++n)
      if (kClamped || (there_ >> n & 1U) != 0)
        async_copy(stage + to_ + n * kEvery * kStride, from_[n], bytes);
  }

 private:
  const Bf16* from_[kRounds];
  std::uint32_t there_ = 0;
  int col_;
  int to_;
};

// Part `part` of kParts of what a thread fetches of the rows of x (where `aligned`) and the weight
// for a whole stage, each part once; `go`: or none of it. A few pieces after each mma(): at once
// they would keep the operands of the stage at hand waiting.
template <int kParts, typename OfRows, typename OfCols>
SACCADE_DEVICE void fetch_part(int part, OfRows& of_rows, OfCols& of_cols, Bf16* x, Bf16* w,
                               bool aligned, bool go) {
  constexpr int kPieces = OfRows::kRounds + OfCols::kRounds;
#pragma unroll
  for (int n = part * kPieces / kParts; n < (part + 1) * kPieces / kParts; ++n) {
    if (n < OfRows::kRounds)
      of_rows.fetch(x, n, go && aligned);
    else
      of_cols.fetch(w, n - OfRows::kRounds, go);
  }
}

// The same at once, of rows that begin anywhere: columns [begin, end), and zeros.
template <int kCount, int kThreads, int kDepth, int kStride, typename RowOf>
SACCADE_DEVICE void copy_pieces(int thread, Bf16* stage, const Bf16* data, std::int64_t stride,
                                std::int64_t first, std::int64_t last, std::int64_t begin,
                                std::int64_t end, const RowOf& of) {
  static_assert(kThreads % kDepth == 0 || kDepth % kThreads == 0);
#pragma unroll 1
  for (int n = 0; n < kCount * kDepth / kThreads; ++n) {
    const int i = n * kThreads + thread;
    const std::int64_t row = first + i / kDepth;
    const std::int64_t col = begin + i % kDepth;
    const bool inside = row < last && col < end;
    stage[i / kDepth * kStride + i % kDepth] = inside ? data[of(row) * stride + col] : Bf16{0};
  }
}

template <typename Out>
SACCADE_DEVICE void finish(const GemmKernelArgs& args, std::int64_t row, std::int64_t col,
                           float sum) {
  if (args.bias != nullptr) sum += args.bias[col];
  if (args.activation != Activation::kNone) sum = activate_by_call(args.activation, sum);
  if (args.residual.data != nullptr)
    sum += widen(static_cast<const Out*>(args.residual.data)[row * args.residual.stride + col]);
  narrow(sum, static_cast<Out*>(args.y.data)[row * args.y.stride + col]);
}

}  // namespace saccade::cuda
