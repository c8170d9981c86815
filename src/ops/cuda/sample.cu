// Tokens from logits, a block a row: what ops/sampling.h says, with the draws of the CPU. Nothing
// is sorted: a cut by rank or by mass, and the draw itself, are searches for the element at which a
// sum over the likeliest first passes a bound, eight bits of the scaled logit at a time.
//
// Masses are whole numbers of 2^-40, so that sums do not depend on the order of threads: the same
// row and draw give the same token. The CPU's sums are doubles of the same weights, so the two
// differ where a draw falls within 2^-40 of a boundary.
#include "ops/cuda/grid.h"

namespace saccade::cuda {
namespace {

using Mass = unsigned long long;

constexpr int kMostThreads = 512;
constexpr int kBins = 256;
constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr double kUnit = 1099511627776.0;  // 2^40

// e^x for x <= 0, bit for bit the CPU sampler's.
SACCADE_DEVICE float exp_below_zero(float x) {
  x = larger(x, -87.0f);
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * float_of(static_cast<unsigned>(static_cast<int>(n) + 127) << 23);
}

SACCADE_DEVICE Mass mass_of(float scaled) {
  return static_cast<Mass>(static_cast<double>(exp_below_zero(scaled)) * kUnit);
}

// Scaled logits are 0 or less: the likelier, the smaller their bits.
SACCADE_DEVICE unsigned rank_of(float scaled) { return bits_of(scaled) & 0x7fffffffU; }

struct Best {
  float logit;
  int token;
};

SACCADE_DEVICE Best likelier(Best a, Best b) {
  return b.logit > a.logit || (b.logit == a.logit && b.token < a.token) ? b : a;
}

// Where a sum first passes a bound, and what it was before.
struct Crossing {
  unsigned at;
  Mass before;
};

// What the block shares.
struct Shared {
  Mass sums[kBins];
  Mass total;
  Crossing crossing;
  Best bests[kMostThreads / 32];
  int counts[kMostThreads / 32];
  int found;
};

struct Row {
  const float* raw;
  float* logits;  // the row's own: adjusted, then scaled
  int vocab;
  int thread;
  int threads;
  Shared* shared;
};

// Of all threads' bests, for all of them.
SACCADE_DEVICE Best block_best(const Row& row, Best best) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    Best other;
    other.logit = __shfl_xor_sync(kFullWarp, best.logit, mask);
    other.token = __shfl_xor_sync(kFullWarp, best.token, mask);
    best = likelier(best, other);
  }
  if (row.thread % 32 == 0) row.shared->bests[row.thread / 32] = best;
  __syncthreads();
  best = row.shared->bests[0];
  for (int warp = 1; warp < row.threads / 32; ++warp)
    best = likelier(best, row.shared->bests[warp]);
  __syncthreads();
  return best;
}

// The sum over the block, for all of its threads.
SACCADE_DEVICE Mass block_sum(const Row& row, Mass mine) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) mine += __shfl_xor_sync(kFullWarp, mine, mask);
  if (row.thread == 0) row.shared->total = 0;
  __syncthreads();
  if (row.thread % 32 == 0) atomicAdd(&row.shared->total, mine);
  __syncthreads();
  const Mass total = row.shared->total;
  __syncthreads();
  return total;
}

// --- what changes logits ---

SACCADE_DEVICE bool within(const Row& row, int token) { return token >= 0 && token < row.vocab; }

// Nothing that a token is given depends on who comes first: an entry that is not its token's first
// leaves it to that one, which adds them in the list's order.
SACCADE_DEVICE void add_bias(const Row& row, const TokenBias* list, int count) {
  for (int i = row.thread; i < count; i += row.threads) {
    const int token = list[i].token;
    if (!within(row, token)) continue;
    bool first = true;
    for (int j = 0; j < i && first; ++j) first = list[j].token != token;
    if (!first) continue;
    float logit = row.logits[token];
    for (int j = i; j < count; ++j)
      if (list[j].token == token) logit += list[j].bias;
    row.logits[token] = logit;
  }
}

SACCADE_DEVICE float penalised(const SampleKernelRow& of, float logit, std::int32_t seen) {
  if (seen == 0) return logit;
  constexpr float kLargest = std::numeric_limits<float>::max();
  const int times = seen & kTimesGenerated;
  const float repetition =
      smaller(larger(of.repetition_penalty, std::numeric_limits<float>::min()), kLargest);
  if (repetition != 1.0f && logit != kMasked) {
    const float repeated = logit > 0 ? logit / repetition : logit * repetition;
    logit = smaller(larger(repeated, -kLargest), kLargest);
  }
  if (times == 0) return logit;
  logit -= of.frequency_penalty * static_cast<float>(times);
  return logit - of.presence_penalty;
}

// The row's logits under everything that can change which is the largest; that one.
SACCADE_DEVICE Best adjust(const Row& row, const SampleKernelRow& of) {
  for (int token = row.thread; token < row.vocab; token += row.threads) {
    const bool allowed =
        of.allowed == nullptr ||
        (token / 32 < of.allowed_words && (of.allowed[token / 32] >> (token % 32) & 1U) != 0);
    row.logits[token] = allowed ? row.raw[token] : kMasked;
  }
  __syncthreads();
  for (int list = 0; list < 2; ++list)
    for (int i = row.thread; i < of.masked_count[list]; i += row.threads)
      if (within(row, of.masked[list][i])) row.logits[of.masked[list][i]] = kMasked;
  __syncthreads();
  add_bias(row, of.bias, of.bias_count);
  __syncthreads();
  Best best{kMasked, std::numeric_limits<int>::max()};
  for (int token = row.thread; token < row.vocab; token += row.threads) {
    float logit = row.logits[token];
    if (of.counts != nullptr) {
      logit = penalised(of, logit, of.counts[token]);
      row.logits[token] = logit;
    }
    best = likelier(best, {logit, token});
  }
  return block_best(row, best);
}

// --- searches ---

// The bin at which the sum over bins in order, from `above` on, passes `bound`, and the sum before
// it, for all threads; the last bin if it never does. shared.sums holds the bins.
SACCADE_DEVICE Crossing cross_bins(const Row& row, Mass above, Mass bound) {
  constexpr int kEach = kBins / 32;
  if (row.thread < 32) {
    const Mass* const mine = row.shared->sums + row.thread * kEach;
    Mass sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += mine[i];
    Mass through = sum;  // the lanes before and this one
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const Mass before = __shfl_up_sync(kFullWarp, through, by);
      if (row.thread >= by) through += before;
    }
    const unsigned passed = __ballot_sync(kFullWarp, above + through > bound);
    const int lane = passed != 0 ? __ffs(static_cast<int>(passed)) - 1 : 31;
    if (row.thread == lane) {
      Mass before = above + through - sum;
      int i = 0;
      while (i + 1 < kEach && before + mine[i] <= bound) before += mine[i++];
      row.shared->crossing = {static_cast<unsigned>(lane * kEach + i), before};
    }
  }
  __syncthreads();
  const Crossing found = row.shared->crossing;
  __syncthreads();
  return found;
}

// The scaled logit, by its rank, at which the sum, likeliest first, passes `bound`, and the sum of
// those before. The sum is of masses, or of ones; what is below `floor` has neither.
SACCADE_DEVICE Crossing cross(const Row& row, bool by_mass, float floor, Mass bound) {
  Crossing at{0, 0};
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int bin = row.thread; bin < kBins; bin += row.threads) row.shared->sums[bin] = 0;
    __syncthreads();
    for (int token = row.thread; token < row.vocab; token += row.threads) {
      const float scaled = row.logits[token];
      if (scaled < floor) continue;
      const unsigned rank = rank_of(scaled);
      if (shift < 24 && rank >> (shift + 8) != at.at) continue;
      const Mass mass = by_mass ? mass_of(scaled) : 1;
      if (mass > 0) atomicAdd(&row.shared->sums[rank >> shift & (kBins - 1)], mass);
    }
    __syncthreads();
    const Crossing bin = cross_bins(row, at.before, bound);
    at = {at.at << 8 | bin.at, bin.before};
  }
  return at;
}

// The token of number `index`, in order, among those of this rank; the last one if there are fewer.
SACCADE_DEVICE int token_of_rank(const Row& row, unsigned rank, int index) {
  int passed = 0;
  if (row.thread == 0) row.shared->found = -1;
  const int rounds = (row.vocab + row.threads - 1) / row.threads;
  for (int round = 0; round < rounds; ++round) {
    const int token = round * row.threads + row.thread;
    const bool is = token < row.vocab && rank_of(row.logits[token]) == rank;
    const unsigned votes = __ballot_sync(kFullWarp, is);
    if (row.thread % 32 == 0) row.shared->counts[row.thread / 32] = __popc(votes);
    __syncthreads();
    int before = passed;
    for (int warp = 0; warp < row.threads / 32; ++warp) {
      const int count = row.shared->counts[warp];
      if (warp < row.thread / 32) before += count;
      passed += count;
    }
    before += __popc(votes & ((1U << (row.thread % 32)) - 1));
    if (is && before <= index) atomicMax(&row.shared->found, token);
    __syncthreads();
    if (passed > index) break;
  }
  const int found = row.shared->found;
  __syncthreads();
  return found;
}

// The first token, in order, at which the sum of masses passes `bound`.
SACCADE_DEVICE int draw_in_order(const Row& row, float floor, Mass bound) {
  int begin = 0;
  int end = row.vocab;
  Mass before = 0;
  while (end - begin > 1) {
    const int stretch = (end - begin + kBins - 1) / kBins;
    for (int bin = row.thread; bin < kBins; bin += row.threads) row.shared->sums[bin] = 0;
    __syncthreads();
    for (int token = begin + row.thread; token < end; token += row.threads) {
      const float scaled = row.logits[token];
      if (scaled < floor) continue;
      const Mass mass = mass_of(scaled);
      if (mass > 0) atomicAdd(&row.shared->sums[(token - begin) / stretch], mass);
    }
    __syncthreads();
    const Crossing bin = cross_bins(row, before, bound);
    begin += static_cast<int>(bin.at) * stretch;
    end = smaller(end, begin + stretch);
    before = bin.before;
  }
  return begin;
}

// A token of the adjusted logits, of which `top` is the largest.
SACCADE_DEVICE int draw(const Row& row, const SampleKernelRow& of, float top) {
  for (int token = row.thread; token < row.vocab; token += row.threads)
    row.logits[token] = (row.logits[token] - top) * of.scale;
  __syncthreads();
  float floor = of.floor;
  if (of.top_k > 0 && of.top_k < row.vocab) {
    Mass kept = 0;
    for (int token = row.thread; token < row.vocab; token += row.threads)
      kept += row.logits[token] < floor ? 0 : 1;
    kept = block_sum(row, kept);
    if (static_cast<Mass>(of.top_k) < kept) {
      const Crossing last = cross(row, false, floor, static_cast<Mass>(of.top_k) - 1);
      floor = -float_of(last.at);
    }
  }
  Mass total = 0;
  for (int token = row.thread; token < row.vocab; token += row.threads) {
    const float scaled = row.logits[token];
    if (!(scaled < floor)) total += mass_of(scaled);
  }
  total = block_sum(row, total);
  const bool by_likelihood = (of.top_k > 0 && of.top_k < row.vocab) || of.top_p < 1;
  if (of.top_p < 1) {
    // At least one stays.
    const auto share = static_cast<Mass>(ceil(larger(of.top_p, 0.0) * static_cast<double>(total)));
    const Mass wanted = larger<Mass>(1, smaller(share, total));
    const Crossing last = cross(row, true, floor, wanted - 1);
    // Equals of the last come one by one.
    const Mass each = mass_of(-float_of(last.at));
    total = last.before + (wanted - last.before + each - 1) / each * each;
  }
  const auto part = static_cast<Mass>(of.uniform * static_cast<double>(total));
  const Mass bound = smaller(part, total - 1);
  if (!by_likelihood) return draw_in_order(row, floor, bound);
  const Crossing at = cross(row, true, floor, bound);
  const Mass each = mass_of(-float_of(at.at));
  return token_of_rank(row, at.at, static_cast<int>((bound - at.before) / each));
}

// The likeliest of the raw logits, one after the other.
SACCADE_DEVICE int list_alternatives(const Row& row, const SampleKernelRow& of, float log_sum_exp) {
  Best last{std::numeric_limits<float>::infinity(), -1};
  for (int i = 0; i < of.alternatives; ++i) {
    Best best{kMasked, std::numeric_limits<int>::max()};
    for (int token = row.thread; token < row.vocab; token += row.threads) {
      const float logit = row.raw[token];
      const bool after = logit < last.logit || (logit == last.logit && token > last.token);
      if (after && logit > kMasked) best = likelier(best, {logit, token});
    }
    last = block_best(row, best);
    if (last.logit == kMasked) return i;
    if (row.thread == 0) of.list[i] = {last.token, last.logit - log_sum_exp};
  }
  return of.alternatives;
}

// How many tokens are as likely as this one or likelier, it among them.
SACCADE_DEVICE std::int32_t rank_of_token(const Row& row, int token) {
  const float logit = row.raw[token];
  Mass mine = 0;
  for (int other = row.thread; other < row.vocab; other += row.threads)
    mine += row.raw[other] >= logit ? 1 : 0;
  return static_cast<std::int32_t>(block_sum(row, mine));
}

__global__ void __launch_bounds__(kMostThreads) sample_kernel(SampleKernelArgs args) {
  SACCADE_SHARED(Shared, shared, 1);
  const SampleKernelRow of = args.rows[blockIdx.x];
  Row row;
  row.raw = static_cast<const float*>(args.logits.data) + of.row * args.logits.stride;
  row.logits = args.scratch + blockIdx.x * args.logits.cols;
  row.vocab = static_cast<int>(args.logits.cols);
  row.thread = static_cast<int>(threadIdx.x);
  row.threads = static_cast<int>(blockDim.x);
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
  } else if (chosen && of.plain_greedy) {
    sampled.token = stats.argmax;
  } else if (chosen) {
    const Best best = adjust(row, of);
    chosen = is_number(best.logit);
    if (chosen) sampled.token = of.greedy ? best.token : draw(row, of, best.logit);
  }
  if (chosen) {
    sampled.failed = 0;
    if (of.alternatives >= 0) {
      sampled.logprob = row.raw[sampled.token] - stats.log_sum_exp;
      sampled.alternatives = list_alternatives(row, of, stats.log_sum_exp);
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
  while (threads < kMostThreads && threads * 8 < args.logits.cols) threads *= 2;
  SACCADE_LAUNCH(sample_kernel, dim3(static_cast<unsigned>(args.count)), dim3(threads), 0, stream,
                 args);
}

void launch_count_prompt(const CountPromptKernelArgs& args, cudaStream_t stream) {
  if (args.tokens == 0) return;
  SACCADE_LAUNCH(count_prompt_kernel, pack_grid(args.tokens, 1, 1), dim3(kRowBlock), 0, stream,
                 args);
}

}  // namespace saccade::cuda
