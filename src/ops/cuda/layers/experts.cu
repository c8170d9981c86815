// Which rows go to which experts, in what order they are multiplied, and the sum of what comes of
// them. The products between are launch_grouped_gemm().
#include "ops/cuda/layers/expert_kernels.h"
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

constexpr int kRouteWarps = 4;
constexpr int kSortBlock = 1024;  // at most

struct Liked {
  float logit;
  std::int32_t expert;
};

// Whether a comes before b: the larger logit, of equals the lower expert.
SACCADE_DEVICE bool before(Liked a, Liked b) {
  return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
}

SACCADE_DEVICE float logit_at(const float* row, std::int32_t i) {
  const float logit = row[i];
  return logit == logit ? logit : -std::numeric_limits<float>::infinity();
}

// One warp a row: each rank is the first behind the one before it.
__global__ void __launch_bounds__(32 * kRouteWarps) route_kernel(RouteKernelArgs args) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRouteWarps + threadIdx.x / 32;
  if (row >= args.logits.rows) return;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const auto count = static_cast<std::int32_t>(args.logits.cols);
  const float* const logits =
      static_cast<const float*>(args.logits.data) + row * args.logits.stride;
  std::int32_t* const experts = args.experts + row * args.per_row;
  float* const weights = args.weights + row * args.per_row;

  constexpr Liked kLast{-std::numeric_limits<float>::infinity(),
                        std::numeric_limits<std::int32_t>::max()};
  Liked earlier{std::numeric_limits<float>::infinity(), -1};
  float largest = 0;
  float total = 0;
  float taken = 0;
  for (std::int64_t rank = 0; rank < args.per_row; ++rank) {
    Liked best = kLast;
    for (std::int32_t i = lane; i < count; i += 32) {
      const Liked candidate{logit_at(logits, i), i};
      if (before(earlier, candidate) && before(candidate, best)) best = candidate;
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      Liked other;
      other.logit = __shfl_xor_sync(kFullWarp, best.logit, mask);
      other.expert = __shfl_xor_sync(kFullWarp, best.expert, mask);
      if (before(other, best)) best = other;
    }
    if (rank == 0) {
      largest = best.logit;
      for (std::int32_t i = lane; i < count; i += 32) total += expf(logits[i] - largest);
      total = warp_sum(total);
    }
    const float share = expf(best.logit - largest);
    taken += share;
    if (lane == 0) {
      experts[rank] = best.expert;
      weights[rank] = share;
    }
    earlier = best;
  }
  __syncwarp();
  for (std::int64_t rank = lane; rank < args.per_row; rank += 32)
    weights[rank] /= args.normalise ? taken : total;
}

__global__ void __launch_bounds__(kSortBlock) sort_visits_kernel(SortVisitsKernelArgs args) {
  SACCADE_DYNAMIC_SHARED(std::int32_t, counts);  // of each expert, then where its next visit goes
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const auto step = static_cast<std::int32_t>(blockDim.x);
  const auto count = static_cast<std::int32_t>(args.count);
  std::int32_t* const next = counts + count;
  for (std::int32_t e = thread; e < count; e += step) counts[e] = 0;
  __syncthreads();
  for (std::int64_t i = thread; i < args.visits; i += step) atomicAdd(&counts[args.experts[i]], 1);
  __syncthreads();
  for (std::int32_t e = thread; e < count; e += step) {
    std::int32_t first = 0;
    std::int32_t tile = 0;
    for (std::int32_t other = 0; other < e; ++other) {
      first += counts[other];
      tile += (counts[other] + args.tile_rows - 1) / args.tile_rows;
    }
    next[e] = first;
    for (std::int32_t done = 0; done < counts[e]; done += args.tile_rows, ++tile)
      args.tiles[tile] = {e, first + done, smaller(counts[e] - done, args.tile_rows)};
    if (e == count - 1)
      for (; tile < args.tile_count; ++tile) args.tiles[tile] = {0, 0, 0};
  }
  __syncthreads();
  for (std::int64_t i = thread; i < args.visits; i += step) {
    const std::int32_t place = atomicAdd(&next[args.experts[i]], 1);
    args.rows[place] = static_cast<std::int32_t>(i / args.per_row);
    args.places[i] = place;
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kRowBlock) combine_kernel(CombineKernelArgs args) {
  for (PackWalk walk(args.y.rows, args.y.cols, N); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    const std::int64_t col = walk.col();
    float sum[N] = {};
    for (std::int64_t visit = row * args.per_row; visit < (row + 1) * args.per_row; ++visit) {
      float term[N];
      load_from<N, T>(args.part, args.places[visit], col, term);
      const float weight = args.weights[visit];
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += weight * term[i];
    }
    if (args.add) {
      float old[N];
      load_from<N, T>(args.y, row, col, old);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += old[i];
    }
    store_to<N, T>(sum, args.y, row, col);
  }
}

template <typename T, int N>
void launch(const CombineKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((combine_kernel<T, N>), pack_grid(args.y.rows, args.y.cols, N), dim3(kRowBlock), 0,
                 stream, args);
}

}  // namespace

void launch_route(const RouteKernelArgs& args, cudaStream_t stream) {
  if (args.logits.rows == 0) return;
  const dim3 grid(static_cast<unsigned>((args.logits.rows + kRouteWarps - 1) / kRouteWarps));
  SACCADE_LAUNCH(route_kernel, grid, dim3(32 * kRouteWarps), 0, stream, args);
}

void launch_sort_visits(const SortVisitsKernelArgs& args, cudaStream_t stream) {
  if (args.visits == 0) return;
  SACCADE_LAUNCH(sort_visits_kernel, dim3(1), dim3(args.visits > 2048 ? kSortBlock : 128),
                 static_cast<std::size_t>(2 * args.count) * sizeof(std::int32_t), stream, args);
}

void launch_combine(const CombineKernelArgs& args, cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  const bool packs = aligned(args.part, kPack) && aligned(args.y, kPack);
  if (args.y.type == DType::kBf16)
    packs ? launch<Bf16, kPack>(args, stream) : launch<Bf16, 1>(args, stream);
  else
    packs ? launch<float, kPack>(args, stream) : launch<float, 1>(args, stream);
}

}  // namespace saccade::cuda
