// Attention on tensor cores, over pages or rows: bf16, f32 softmax and sums. A tile is 64 rows of
// one sequence and key head, the heads of a group beside each other, so that decode fills it too.
// Keys come in tiles that begin at fixed tokens, and one that a row does not see leaves the row's
// state as it was: bits depend on the row's own sequence alone.
#include "ops/cuda/attention_rows.h"
#include "ops/cuda/grid.h"

namespace saccade::cuda {
namespace {

constexpr int kThreads = 128;  // four warps of 16 rows
constexpr float kNone = -std::numeric_limits<float>::infinity();

template <int kDim>
struct Sizes {
  static constexpr int kStride = kDim + 8;
  static constexpr int kTokens = kDim > 128 ? 32 : 64;
  static constexpr int kTile = kTokens * kStride;  // of keys, or of values
  static constexpr int kSharedBytes = (kAttentionTileRows * kStride + 4 * kTile) * 2;
};

// Tokens [first, first + kTokens) of one key head: keys, or values. Those outside of [begin, end)
// become zero: what lies there may be anything.
template <int kDim>
SACCADE_DEVICE void fetch_tokens(Bf16* to, const AttentionKernelArgs& args,
                                 const AttentionSequence& sequence, std::int64_t kv_head,
                                 bool values, std::int64_t first, std::int64_t begin,
                                 std::int64_t end) {
  constexpr int kChunks = kDim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < Sizes<kDim>::kTokens * kChunks; i += kThreads) {
    const std::int64_t token = first + i / kChunks;
    const int col = i % kChunks * 8;
    const bool inside = token >= begin && token < end && col < args.head_dim;
    const void* const source =
        inside ? token_row<Bf16>(args, sequence, kv_head, values, token) : nullptr;
    // head_dim is a multiple of 8.
    // What is not read has to be aligned as well.
    const void* const nowhere = args.pages.base != nullptr ? args.pages.base : args.k.data;
    async_copy(to + i / kChunks * Sizes<kDim>::kStride + col,
               source != nullptr ? static_cast<const Bf16*>(source) + col : nowhere,
               source != nullptr ? 16 : 0);
  }
}

SACCADE_DEVICE std::uint32_t pack_pair(float low, float high) {
  Bf16 a;
  Bf16 b;
  narrow(low, a);
  narrow(high, b);
  return std::uint32_t{a.bits} | std::uint32_t{b.bits} << 16;
}

// One row's place in its softmax: largest score so far (times log2 e) and this lane's part of the
// sum.
struct RowState {
  float max = kNone;
  float sum = 0;
};

template <int kDim>
__global__ void __launch_bounds__(kThreads) attention_kernel(AttentionKernelArgs args) {
  using S = Sizes<kDim>;
  constexpr int kTokenTiles = S::kTokens / 8;
  constexpr int kDimTiles = kDim / 8;
  constexpr float kLog2E = 1.44269504088896341f;
  SACCADE_DYNAMIC_SHARED(Bf16, shared);
  Bf16* const queries = shared;
  Bf16* const keys = shared + kAttentionTileRows * S::kStride;  // two stages of keys and values
  const AttentionTile tile = args.tiles[blockIdx.x];
  const AttentionSequence sequence = args.sequences[tile.sequence];
  const std::int64_t kv_head = blockIdx.y;
  const std::int64_t group = args.heads / args.kv_heads;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int warp_row = static_cast<int>(threadIdx.x / 32) * 16;

  for (int i = static_cast<int>(threadIdx.x); i < kAttentionTileRows * kDim; i += kThreads) {
    const RowPlace place = place_of(args, sequence, tile.first + i / kDim, group);
    const int col = i % kDim;
    Bf16 value{0};
    if (place.inside && col < args.head_dim)
      value = static_cast<const Bf16*>(
          args.q.data)[place.row * args.q.stride +
                       (kv_head * group + place.member) * args.head_dim + col];
    queries[i / kDim * S::kStride + col] = value;
  }
  // Tokens that any row of the tile sees: rows are in order, and so are both ends.
  std::int64_t begin = std::numeric_limits<std::int32_t>::max();
  std::int64_t end = 0;
  for (int i = lane; i < kAttentionTileRows; i += 32) {
    const RowPlace place = place_of(args, sequence, tile.first + i, group);
    if (!place.inside) continue;
    begin = smaller(begin, place.begin);
    end = larger(end, place.end);
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    begin = smaller<std::int64_t>(begin, __shfl_xor_sync(kFullWarp, begin, mask));
    end = larger<std::int64_t>(end, __shfl_xor_sync(kFullWarp, end, mask));
  }
  // This lane's two rows: lane / 4 of the warp's, and 8 further on.
  RowPlace mine[2];
  for (int half = 0; half < 2; ++half)
    mine[half] = place_of(args, sequence, tile.first + warp_row + lane / 4 + 8 * half, group);

  const std::int64_t first_tile = begin / S::kTokens;
  const std::int64_t tiles = end > begin ? (end + S::kTokens - 1) / S::kTokens : first_tile;
  const auto fetch = [&](std::int64_t t) {
    if (t < tiles) {
      Bf16* const stage = keys + t % 2 * 2 * S::kTile;
      fetch_tokens<kDim>(stage, args, sequence, kv_head, false, t * S::kTokens, begin, end);
      fetch_tokens<kDim>(stage + S::kTile, args, sequence, kv_head, true, t * S::kTokens, begin,
                         end);
    }
    async_commit();
  };

  RowState state[2];
  float out[kDimTiles][4] = {};
  fetch(first_tile);
  for (std::int64_t t = first_tile; t < tiles; ++t) {
    fetch(t + 1);
    async_wait<1>();
    __syncthreads();
    const Bf16* const k = keys + t % 2 * 2 * S::kTile;
    const Bf16* const v = k + S::kTile;

    float scores[kTokenTiles][4] = {};
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      std::uint32_t a[4];
      ldmatrix(a, queries + (warp_row + lane % 16) * S::kStride + d + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < kTokenTiles; n += 2) {
        std::uint32_t b[4];
        ldmatrix(b, k + (n * 8 + lane / 16 * 8 + lane % 8) * S::kStride + d + lane / 8 % 2 * 8);
        const std::uint32_t left[2] = {b[0], b[1]};
        const std::uint32_t right[2] = {b[2], b[3]};
        mma(scores[n], a, left);
        mma(scores[n + 1], a, right);
      }
    }

    float largest[2] = {kNone, kNone};
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const RowPlace& row = mine[e / 2];
        const std::int64_t token = t * S::kTokens + n * 8 + lane % 4 * 2 + e % 2;
        float score = scores[n][e] * args.scale;
        if (args.softcap > 0) score = args.softcap * tanhf(score / args.softcap);
        score = token >= row.begin && token < row.end ? score * kLog2E : kNone;
        scores[n][e] = score;
        largest[e / 2] = larger(largest[e / 2], score);
      }
    }
    float shrink[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int mask = 1; mask <= 2; mask *= 2)
        largest[half] = larger(largest[half], __shfl_xor_sync(kFullWarp, largest[half], mask));
      const float max = larger(state[half].max, largest[half]);
      shrink[half] = max == state[half].max ? 1.0f : exp2f(state[half].max - max);
      state[half].max = max;
      state[half].sum *= shrink[half];
    }
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float weight = scores[n][e] == kNone ? 0.0f : exp2f(scores[n][e] - state[e / 2].max);
        scores[n][e] = weight;
        state[e / 2].sum += weight;
      }
    }
#pragma unroll
    for (int d = 0; d < kDimTiles; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[d][e] *= shrink[e / 2];
#pragma unroll
    for (int n = 0; n < kTokenTiles; n += 2) {
      const std::uint32_t a[4] = {pack_pair(scores[n][0], scores[n][1]),
                                  pack_pair(scores[n][2], scores[n][3]),
                                  pack_pair(scores[n + 1][0], scores[n + 1][1]),
                                  pack_pair(scores[n + 1][2], scores[n + 1][3])};
#pragma unroll
      for (int d = 0; d < kDimTiles; d += 2) {
        std::uint32_t b[4];
        ldmatrix_transposed(b, v + (n * 8 + lane % 16) * S::kStride + d * 8 + lane / 16 * 8);
        const std::uint32_t left[2] = {b[0], b[1]};
        const std::uint32_t right[2] = {b[2], b[3]};
        mma(out[d], a, left);
        mma(out[d + 1], a, right);
      }
    }
    __syncthreads();  // before the next fetch but one writes here
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = state[half].sum;
#pragma unroll
    for (int mask = 1; mask <= 2; mask *= 2) sum += __shfl_xor_sync(kFullWarp, sum, mask);
    if (!mine[half].inside) continue;
    const float scale = sum > 0 ? 1 / sum : 0.0f;
    Bf16* const to = static_cast<Bf16*>(args.out.data) + mine[half].row * args.out.stride +
                     (kv_head * group + mine[half].member) * args.head_dim;
#pragma unroll
    for (int d = 0; d < kDimTiles; ++d) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int col = d * 8 + lane % 4 * 2 + e;
        if (col < args.head_dim) narrow(out[d][2 * half + e] * scale, to[col]);
      }
    }
  }
}

template <int kDim>
void launch(const AttentionKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((attention_kernel<kDim>),
                 dim3(static_cast<unsigned>(args.tile_count), static_cast<unsigned>(args.kv_heads)),
                 dim3(kThreads), Sizes<kDim>::kSharedBytes, stream, args);
}

bool whole_chunks(const void* data, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % 16 == 0;
}

// Whether every key and value row can be taken 16 bytes at a time.
bool takes(const AttentionKernelArgs& args) {
  if (args.q.type != DType::kBf16 || args.out.type != DType::kBf16) return false;
  if (args.head_dim % 8 != 0 || args.head_dim > 256) return false;
  if (args.pages.base != nullptr)
    return args.pages.type == DType::kBf16 &&
           whole_chunks(args.pages.base, args.pages.block_stride);
  return args.k.type == DType::kBf16 && whole_chunks(args.k.data, 2 * args.k.stride) &&
         whole_chunks(args.v.data, 2 * args.v.stride);
}

}  // namespace

void launch_attention(const AttentionKernelArgs& args, cudaStream_t stream) {
  if (args.tile_count == 0) return;
  if (!takes(args))
    launch_attention_f32(args, stream);
  else if (args.head_dim <= 64)
    launch<64>(args, stream);
  else if (args.head_dim <= 80)
    launch<80>(args, stream);
  else if (args.head_dim <= 96)
    launch<96>(args, stream);
  else if (args.head_dim <= 128)
    launch<128>(args, stream);
  else
    launch<256>(args, stream);
}

}  // namespace saccade::cuda
