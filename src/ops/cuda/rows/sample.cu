// Tokens from logits, a block a row: what ops/sampling.h says, with the draws of the CPU. Nothing
// is sorted: a cut by rank or by mass, and the draw itself, are searches for the element at which a
// sum over the likeliest first passes a bound. A search reads the row once for a histogram of the
// scaled logits and once for the few that lie no further than the bin of its bound; what is left
// to do it does with those, in shared memory.
//
// Masses are whole numbers of 2^-40, so that sums do not depend on the order of threads: the same
// row and draw give the same token. The CPU's sums are doubles of the same weights, so the two
// differ where a draw falls within 2^-40 of a boundary.
#include "ops/cuda/rows/grid.h"
#include "ops/cuda/rows/sample_row.h"

namespace saccade::cuda {
namespace {

using namespace sampling;

// --- searches ---

// Which ranks the histogram's bins have: bin i those from first + (i << shift) on. What comes
// before the first is in bin `below`, or in none.
struct Window {
  unsigned first;
  int shift;
  unsigned below;
};

// All that have mass. Seven bits of the significand and the exponent, as far down as there are bins
// for: bin 0 has all that is within 0.0004 of the largest.
SACCADE_DEVICE Window whole_window() {
  constexpr int kShift = 16;
  constexpr unsigned kLast = 0x41e00000U >> kShift;  // of kLeastScaled
  return {(kLast - (kBins - 1)) << kShift, kShift, 0};
}

SACCADE_DEVICE unsigned bin_of(const Window& window, unsigned rank) {
  return rank < window.first ? window.below : (rank - window.first) >> window.shift;
}

// The first rank of a bin.
SACCADE_DEVICE unsigned begin_of(const Window& window, unsigned bin) {
  return bin == 0 && window.below == 0 ? 0 : window.first + (bin << window.shift);
}

// Of a bin's ranks as many as there are bins, and more beyond, which come after.
SACCADE_DEVICE Window window_of(const Window& window, unsigned bin) {
  const unsigned begin = begin_of(window, bin);
  const unsigned length = window.first + ((bin + 1) << window.shift) - begin;
  int shift = 0;
  while (kBins << shift < static_cast<int>(length)) ++shift;
  return {begin, shift, kBins};
}

SACCADE_DEVICE void add_mass(const Row& row, unsigned bin, Mass mass) {
  const auto low = static_cast<unsigned>(mass);
  auto high = static_cast<unsigned>(mass >> 32);
  // Whoever makes the low half wrap carries.
  if (atomicAdd(&row.shared->low[bin], low) > ~low) ++high;
  if (high != 0) atomicAdd(&row.shared->high[bin], high);
}

// Of every lane that `has` one.
SACCADE_DEVICE void add_masses(const Row& row, bool has, unsigned bin, Mass mass) {
  unsigned left = __ballot_sync(kFullWarp, has);
  while (left != 0) {
    const int lead = __ffs(static_cast<int>(left)) - 1;
    const unsigned wanted = __shfl_sync(kFullWarp, bin, lead);
    const bool same = has && bin == wanted;
    const unsigned together = __ballot_sync(kFullWarp, same);
    if (__popc(together) < kWorthASum) break;
    const Mass sum = warp_mass(same ? mass : 0);
    if (row.lane == lead) add_mass(row, bin, sum);
    has = has && !same;
    left &= ~together;
  }
  if (has) add_mass(row, bin, mass);
}

// The histogram as a thread has it: of its bins, of those before them, of all.
struct Scan {
  Mass before;
  Mass mine;
  Mass total;
};

SACCADE_DEVICE Mass sum_of(const Row& row, int bin) {
  return Mass{row.shared->high[bin]} << 32 | row.shared->low[bin];
}

// Makes the histogram: of masses, or of ones. What is below `floor` has neither.
SACCADE_DEVICE Scan fill(const Row& row, const Window& window, bool by_mass, float floor) {
  for (int bin = row.thread; bin < kBins; bin += row.threads) {
    row.shared->low[bin] = 0;
    row.shared->high[bin] = 0;
  }
  __syncthreads();
  walk_scaled<kAheadOfMasses>(row, [&](int, float scaled) {
    const unsigned bin = bin_of(window, rank_of(scaled));
    const bool has = scaled >= floor && bin < kBins;
    if (by_mass)
      add_masses(row, has, bin, has ? mass_of(scaled) : 0);
    else if (has)
      atomicAdd(&row.shared->low[bin], 1U);
  });
  __syncthreads();
  const int each = kBins / row.threads;
  Scan scan{0, 0, 0};
  for (int i = 0; i < each; ++i) scan.mine += sum_of(row, row.thread * each + i);
  const Mass through = mass_through(row, scan.mine);
  if (row.lane == kLanes - 1) row.shared->sums[row.warp] = through;
  __syncthreads();
  scan.before = through - scan.mine;
  for (int warp = 0; warp < row.warps; ++warp) {
    const Mass sum = row.shared->sums[warp];
    if (warp < row.warp) scan.before += sum;
    scan.total += sum;
  }
  return scan;
}

// The bin at which the sum over bins in order passes `bound`, which is less than their total, and
// the sum before it, for all threads.
SACCADE_DEVICE Crossing cross_bins(const Row& row, const Scan& scan, Mass bound) {
  if (scan.before <= bound && bound - scan.before < scan.mine) {
    int bin = row.thread * (kBins / row.threads);
    Mass before = scan.before;
    while (bound - before >= sum_of(row, bin)) before += sum_of(row, bin++);
    row.shared->crossing = {static_cast<unsigned>(bin), before};
  }
  __syncthreads();
  const Crossing found = row.shared->crossing;
  __syncthreads();
  return found;
}

// Lists what has a rank of [begin, end) and is not below `floor`, as far as there is room for it;
// how many these are.
SACCADE_DEVICE int list_ranks(const Row& row, float floor, unsigned begin, unsigned end) {
  if (row.thread == 0) row.shared->count = 0;
  __syncthreads();
  walk_scaled<kAhead>(row, [&](int token, float scaled) {
    const unsigned rank = rank_of(scaled);
    const bool is = scaled >= floor && rank - begin < end - begin;
    const unsigned votes = __ballot_sync(kFullWarp, is);
    if (votes == 0) return;
    int at = 0;
    if (row.lane == 0) at = atomicAdd(&row.shared->count, __popc(votes));
    at = __shfl_sync(kFullWarp, at, 0) + __popc(votes & ((1U << row.lane) - 1));
    if (!is || at >= kMaxListed) return;
    row.shared->ranks[at] = rank;
    row.shared->tokens[at] = token;
  });
  __syncthreads();
  const int count = row.shared->count;
  __syncthreads();
  return count;
}

// The first token, in order, at which the sum of weights passes `bound_of` their total.
template <typename Weight, typename Bound>
SACCADE_DEVICE int first_to_pass(const Row& row, const Weight& weight, const Bound& bound_of) {
  int begin = 0;
  int end = row.vocab;
  Mass bound = 0;
#pragma unroll 1
  for (bool whole = true; whole || end - begin > kLanes; whole = false) {
    Mass mine = 0;
    walk<kAheadOfMasses>(
        row, begin, end, kMasked, [&](int token) { return row.logits[token]; },
        [&](int, float logit) { mine += weight(scaled_of(row, logit)); });
    mine = warp_mass(mine);
    __syncthreads();
    if (row.lane == 0) row.shared->sums[row.warp] = mine;
    __syncthreads();
    if (whole) {
      Mass total = 0;
      for (int warp = 0; warp < row.warps; ++warp) total += row.shared->sums[warp];
      bound = bound_of(total);
    }
    int warp = 0;
    while (warp + 1 < row.warps && row.shared->sums[warp] <= bound)
      bound -= row.shared->sums[warp++];
    const int stretch = stretch_of(row, begin, end);
    begin += warp * stretch;
    end = smaller(end, begin + stretch);
  }
  const int token = begin + row.lane;
  const Mass mine = weight(scaled_of(row, token < end ? row.logits[token] : kMasked));
  const unsigned passed = __ballot_sync(kFullWarp, mass_through(row, mine) > bound);
  return passed != 0 ? begin + __ffs(static_cast<int>(passed)) - 1 : end - 1;
}

// The token of number `index`, in order, among those of this rank.
SACCADE_DEVICE int token_of_rank(const Row& row, unsigned rank, Mass index) {
  if (row.listed >= 0) {
    if (row.thread == 0) {
      row.shared->count = 0;
      row.shared->found = -1;
    }
    __syncthreads();
    for (int i = row.thread; i < row.listed; i += row.threads) {
      if (row.shared->ranks[i] != rank) continue;
      atomicAdd(&row.shared->count, 1);
      atomicMax(&row.shared->found, row.shared->tokens[i]);
    }
    __syncthreads();
    const int count = row.shared->count;
    const int found = row.shared->found;
    __syncthreads();
    if (count == 1) return found;
  }
  return first_to_pass(
      row, [&](float scaled) { return Mass{rank_of(scaled) == rank ? 1U : 0U}; },
      [&](Mass) { return index; });
}

SACCADE_DEVICE Mass drawn_of(const SampleKernelRow& of, Mass total) {
  const auto part = static_cast<Mass>(of.uniform * static_cast<double>(total));
  return smaller(part, total - 1);
}

// A token among the likeliest: cut by rank, cut by mass and drawn, each a search.
SACCADE_DEVICE int draw_likeliest(Row row, const SampleKernelRow& of, float floor, bool by_rank) {
  if (by_rank && of.top_k == 1) {
    by_rank = false;
    floor = 0;
    const int count = list_ranks(row, floor, 0, 1);
    if (count == 1) return row.shared->tokens[0];
    if (count <= kMaxListed) row.listed = count;
  }
  enum Search { kRank, kMass, kDraw };
  Search search = by_rank ? kRank : of.top_p < 1 ? kMass : kDraw;
  Mass total = 0;
#pragma unroll 1
  for (;;) {
    Window window = whole_window();
    Row among = row;
    Crossing at{0, 0};
    Mass bound = 0;
#pragma unroll 1
    for (bool whole = true;; whole = false) {
      const Scan scan = fill(among, window, search != kRank, floor);
      if (whole && search == kRank) {
        bound = static_cast<Mass>(of.top_k) - 1;
        if (bound >= scan.total) {  // all stay that have mass
          at.at = rank_of(floor);
          break;
        }
      } else if (whole && search == kMass) {
        // At least one stays.
        const auto share =
            static_cast<Mass>(ceil(larger(of.top_p, 0.0) * static_cast<double>(scan.total)));
        bound = larger<Mass>(1, smaller(share, scan.total)) - 1;
      } else if (whole) {
        bound = drawn_of(of, of.top_p < 1 ? total : scan.total);
      }
      const Crossing bin = cross_bins(row, scan, bound - at.before);
      at = {begin_of(window, bin.at), at.before + bin.before};
      if (window.shift == 0) break;
      const Window next = window_of(window, bin.at);
      if (whole && row.listed < 0) {
        // The likeliest up to this bin serve the searches to come too; if they are too many, the
        // bin alone does for this one.
        const unsigned end = begin_of(window, bin.at + 1);
        int count = list_ranks(row, floor, 0, end);
        if (count == 1) return row.shared->tokens[0];
        if (count <= kMaxListed)
          row.listed = count;
        else
          count = list_ranks(row, floor, at.at, end);
        if (count <= kMaxListed) among.listed = count;
      }
      window = next;
    }
    const Mass each = mass_of(-float_of(at.at));
    if (search == kDraw) return token_of_rank(row, at.at, (bound - at.before) / each);
    if (search == kRank) {
      floor = larger(floor, -float_of(at.at));
      search = of.top_p < 1 ? kMass : kDraw;
    } else {
      // Equals of the last come one by one.
      total = at.before + (bound + 1 - at.before + each - 1) / each * each;
      search = kDraw;
    }
  }
}

// A token of the row's logits.
SACCADE_DEVICE int draw(const Row& row, const SampleKernelRow& of) {
  const float floor = larger(smaller(of.floor, 0.0f), kLeastScaled);
  const bool by_rank = of.top_k > 0 && of.top_k < row.vocab;
  if (by_rank || of.top_p < 1) return draw_likeliest(row, of, floor, by_rank);
  return first_to_pass(
      row, [&](float scaled) { return scaled >= floor ? mass_of(scaled) : Mass{0}; },
      [&](Mass total) { return drawn_of(of, total); });
}

// --- the raw logits ---

// Lists the `count` likeliest and some more, unless they are too many or too far from the largest.
SACCADE_DEVICE void list_likeliest(Row& row, int count) {
  const Scan scan = fill(row, whole_window(), false, kLeastScaled);
  const Mass bound = static_cast<Mass>(count) - 1;
  if (bound < scan.total) {
    const Crossing bin = cross_bins(row, scan, bound);
    const int listed = list_ranks(row, kLeastScaled, 0, begin_of(whole_window(), bin.at + 1));
    if (listed <= kMaxListed) row.listed = listed;
  }
}

// The likeliest of the raw logits, one after the other.
SACCADE_DEVICE int list_alternatives(Row row, const SampleKernelRow& of,
                                     const RowStatsEntry& stats) {
  row.logits = row.raw;
  row.top = stats.max;
  row.scale = 1;
  row.listed = -1;
  __syncthreads();
  if (of.alternatives > 2) list_likeliest(row, of.alternatives);
  Best last{std::numeric_limits<float>::infinity(), -1};
#pragma unroll 1
  for (int i = 0; i < of.alternatives; ++i) {
    Best best{kMasked, std::numeric_limits<int>::max()};
    const auto take = [&](int token, float logit) {
      const bool after = logit < last.logit || (logit == last.logit && token > last.token);
      if (after && logit > kMasked) best = likelier(best, {logit, token});
    };
    if (row.listed >= 0) {
      for (int at = row.thread; at < row.listed; at += row.threads)
        take(row.shared->tokens[at], row.raw[row.shared->tokens[at]]);
    } else {
      walk<kAhead>(row, 0, row.vocab, kMasked, [&](int token) { return row.raw[token]; }, take);
    }
    last = block_best(row, best);
    if (last.logit == kMasked) return i;
    if (row.thread == 0) of.list[i] = {last.token, last.logit - stats.log_sum_exp};
  }
  return of.alternatives;
}

// How many tokens are as likely as this one or likelier, it among them.
SACCADE_DEVICE std::int32_t rank_of_token(const Row& row, int token) {
  const float logit = row.raw[token];
  int mine = 0;
  walk<kAhead>(
      row, 0, row.vocab, kMasked, [&](int other) { return row.raw[other]; },
      [&](int other, float at) { mine += other >= 0 && at >= logit ? 1 : 0; });
  if (row.thread == 0) row.shared->count = 0;
  __syncthreads();
  atomicAdd(&row.shared->count, mine);
  __syncthreads();
  return row.shared->count;
}

__global__ void __launch_bounds__(kMaxThreads) sample_kernel(SampleKernelArgs args) {
  SACCADE_SHARED(Shared, shared, 1);
  const SampleKernelRow& of = args.rows[blockIdx.x];
  Row row;
  row.raw = static_cast<const float*>(args.logits.data) + of.row * args.logits.stride;
  row.adjusted = of.adjusts ? args.scratch + blockIdx.x * args.logits.cols : nullptr;
  row.vocab = static_cast<int>(args.logits.cols);
  row.listed = -1;
  row.thread = static_cast<int>(threadIdx.x);
  row.threads = static_cast<int>(blockDim.x);
  row.lane = row.thread % kLanes;
  row.warp = row.thread / kLanes;
  row.warps = row.threads / kLanes;
  row.shared = shared;
  const RowStatsEntry stats = *reinterpret_cast<const RowStatsEntry*>(
      reinterpret_cast<const std::byte*>(args.stats) + of.row * args.stats_stride);

  SampledEntry sampled{0, 0, 0, 1, 0};
  const auto is_number = [](float x) {
    return x - x == 0;  // not for an infinity, nor for NaN
  };
  bool chosen = is_number(stats.max) && is_number(stats.log_sum_exp);
  if (chosen && of.given >= 0) {
    sampled.token = of.given;
    sampled.rank = rank_of_token(row, of.given);
  } else if (chosen) {
    Best best{stats.max, stats.argmax};
    if (of.adjusts) best = adjust(row, of);
    row.logits = of.adjusts ? row.adjusted : row.raw;
    row.top = best.logit;
    row.scale = of.scale;
    chosen = is_number(best.logit);
    if (chosen) sampled.token = of.greedy ? best.token : draw(row, of);
  }
  if (chosen) {
    sampled.failed = 0;
    if (of.alternatives >= 0) {
      sampled.logprob = row.raw[sampled.token] - stats.log_sum_exp;
      sampled.alternatives = list_alternatives(row, of, stats);
    }
  }
  if (row.thread != 0) return;
  if (chosen && of.counts != nullptr) ++of.counts[sampled.token];
  *of.sampled = sampled;
  if (of.last_token != nullptr) *of.last_token = sampled.token;
}

// One sequence's counts begin: zero, but for what its prompt has.
__global__ void __launch_bounds__(kRowBlock) count_prompt_kernel(CountPromptKernelArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * kRowBlock;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kRowBlock + threadIdx.x; i < args.tokens;
       i += step) {
    const std::int32_t token = args.prompt[i];
    if (token >= 0 && token < args.vocab) args.counts[token] = kInPrompt;
  }
}

}  // namespace

void launch_sample(const SampleKernelArgs& args, cudaStream_t stream) {
  if (args.count == 0) return;
  // A thread is worth its keep from eight logits on.
  unsigned threads = 128;
  while (threads < kMaxThreads && threads * 8 < args.logits.cols) threads *= 2;
  SACCADE_LAUNCH(sample_kernel, dim3(static_cast<unsigned>(args.count)), dim3(threads), 0, stream,
                 args);
}

void launch_count_prompt(const CountPromptKernelArgs& args, cudaStream_t stream) {
  if (args.tokens == 0) return;
  SACCADE_LAUNCH(count_prompt_kernel, pack_grid(args.tokens, 1, 1), dim3(kRowBlock), 0, stream,
                 args);
}

}  // namespace saccade::cuda
