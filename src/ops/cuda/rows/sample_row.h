// A row of logits as the block that samples from it has it: what it shares, how its warps go over
// the row, the masses of logits, and what changes these before a token is chosen. For sample.cu,
// which is compiled without fused multiply-adds: masses have the CPU's bits.
#pragma once

#include "ops/cuda/kernel.h"

namespace saccade::cuda::sampling {

using Mass = unsigned long long;

constexpr int kMaxThreads = 1024;
constexpr int kLanes = 32;
// Logits that a thread has under way where little is done with each, and where there is an
// exponential to compute.
constexpr int kAhead = 8;
constexpr int kAheadOfMasses = 4;
constexpr int kBins = 2048;
constexpr int kMaxListed = 2048;
// From so many lanes of one bin on, their sum is made before it is added: atomics on one address
// come one after another.
constexpr int kWorthASum = 8;
constexpr float kMasked = -std::numeric_limits<float>::infinity();
// What lies below has no mass: e^-28 < 2^-40. Nothing is lost where it is not looked at.
constexpr float kLeastScaled = -28.0f;

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
  // n is in the low bits of `shifted`, and what stands above them is shifted out.
  return p * float_of((bits_of(shifted) << 23) + (127U << 23));
}

// The whole part of 2^40 e^scaled, by its bits: conversions to and from 64 bits are slow.
SACCADE_DEVICE Mass mass_of(float scaled) {
  const unsigned bits = bits_of(exp_below_zero(scaled));
  const Mass significand = Mass{(bits & 0x7fffffU) | 0x800000U} << (40 - 23);
  return significand >> smaller(127U - (bits >> 23), 63U);
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

// A bin, or a rank, at which a sum first passes a bound, and what it was before.
struct Crossing {
  unsigned at;
  Mass before;
};

// What the block shares.
struct Shared {
  // The histogram: counts in `low` alone, masses in both. There is no atomic add of 64 bits here
  // that is not a loop.
  unsigned low[kBins];
  unsigned high[kBins];
  // Some of the row's tokens, in any order.
  unsigned ranks[kMaxListed];
  int tokens[kMaxListed];
  Mass sums[kMaxThreads / kLanes];
  Crossing crossing;
  Best bests[kMaxThreads / kLanes];
  int count;
  int found;
};

struct Row {
  const float* raw;
  float* adjusted;      // the row's own
  const float* logits;  // one of them: what is drawn from
  float top;            // the largest of `logits`
  float scale;
  int vocab;
  int listed;  // -1; or all that is looked at is in the list, which has as many
  int thread;
  int threads;
  int lane;
  int warp;
  int warps;
  Shared* shared;
};

SACCADE_DEVICE float scaled_of(const Row& row, float logit) {
  return (logit - row.top) * row.scale;
}

// --- over the row ---

// Each warp takes a stretch of [begin, end), as long as the others but for the last ones.
SACCADE_DEVICE int stretch_of(const Row& row, int begin, int end) {
  const int each = (end - begin + row.warps - 1) / row.warps;
  return (each + kLanes - 1) / kLanes * kLanes;
}

// visit(token, load(token)) for the tokens of [begin, end). All lanes of a warp visit together:
// those beyond its stretch are given -1 and `absent`.
template <int ahead, typename Item, typename Load, typename Visit>
SACCADE_DEVICE void walk(const Row& row, int begin, int end, Item absent, const Load& load,
                         const Visit& visit) {
  const int stretch = stretch_of(row, begin, end);
  const int warp_begin = begin + row.warp * stretch;
  const int warp_end = smaller(end, warp_begin + stretch);
#pragma unroll 1
  for (int first = warp_begin; first < warp_end; first += kLanes * ahead) {
    Item items[ahead];
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int token = first + i * kLanes + row.lane;
      items[i] = token < warp_end ? load(token) : absent;
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int token = first + i * kLanes + row.lane;
      visit(token < warp_end ? token : -1, items[i]);
    }
  }
}

// visit(token, scaled logit) for all tokens, or for the listed ones, as walk() does.
template <int ahead, typename Visit>
SACCADE_DEVICE void walk_scaled(const Row& row, const Visit& visit) {
  if (row.listed < 0) {
    walk<ahead>(
        row, 0, row.vocab, kMasked, [&](int token) { return row.logits[token]; },
        [&](int token, float logit) { visit(token, scaled_of(row, logit)); });
    return;
  }
#pragma unroll 1
  for (int first = 0; first < row.listed; first += row.threads) {
    const int i = first + row.thread;
    const bool is = i < row.listed;
    visit(is ? row.shared->tokens[i] : -1, is ? -float_of(row.shared->ranks[i]) : kMasked);
  }
}

SACCADE_DEVICE Mass warp_mass(Mass mine) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) mine += __shfl_xor_sync(kFullWarp, mine, mask);
  return mine;
}

// The sum over this lane and those before it.
SACCADE_DEVICE Mass mass_through(const Row& row, Mass mine) {
#pragma unroll
  for (int by = 1; by < kLanes; by *= 2) {
    const Mass before = __shfl_up_sync(kFullWarp, mine, by);
    if (row.lane >= by) mine += before;
  }
  return mine;
}

// Of all threads' bests, for all of them.
SACCADE_DEVICE Best block_best(const Row& row, Best best) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    Best other;
    other.logit = __shfl_xor_sync(kFullWarp, best.logit, mask);
    other.token = __shfl_xor_sync(kFullWarp, best.token, mask);
    best = likelier(best, other);
  }
  if (row.lane == 0) row.shared->bests[row.warp] = best;
  __syncthreads();
  best = row.shared->bests[0];
  for (int warp = 1; warp < row.warps; ++warp) best = likelier(best, row.shared->bests[warp]);
  __syncthreads();
  return best;
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
    float logit = row.adjusted[token];
    for (int j = i; j < count; ++j)
      if (list[j].token == token) logit += list[j].bias;
    row.adjusted[token] = logit;
  }
}

struct Penalties {
  float repetition;
  float frequency;
  float presence;
};

SACCADE_DEVICE float penalised(const Penalties& by, float logit, std::int32_t seen) {
  if (seen == 0) return logit;
  const int times = seen & kTimesGenerated;
  if (by.repetition != 1.0f && logit != kMasked) {
    constexpr float kLargest = std::numeric_limits<float>::max();
    const float repeated = logit > 0 ? logit / by.repetition : logit * by.repetition;
    logit = smaller(larger(repeated, -kLargest), kLargest);
  }
  if (times == 0) return logit;
  logit -= by.frequency * static_cast<float>(times);
  return logit - by.presence;
}

// A logit, and what there is of its token among TokenCounts.
struct Counted {
  float logit;
  std::int32_t seen;
};

// The row's logits under everything that can change which is the largest; that one. What lists
// change needs them written, and read once more.
SACCADE_DEVICE Best adjust(const Row& row, const SampleKernelRow& of) {
  const bool by_lists = of.masked_count[0] > 0 || of.masked_count[1] > 0 || of.bias_count > 0;
  const Penalties penalties{
      smaller(larger(of.repetition_penalty, std::numeric_limits<float>::min()),
              std::numeric_limits<float>::max()),
      of.frequency_penalty, of.presence_penalty};
  const std::uint32_t* const allowed = of.allowed;
  const int allowed_words = of.allowed_words;
  const std::int32_t* const counts = of.counts;
  Best best{kMasked, std::numeric_limits<int>::max()};
#pragma unroll 1
  for (int round = by_lists ? 0 : 1; round < 2; ++round) {
    const bool last = round == 1;
    walk<kAhead>(
        row, 0, row.vocab, Counted{kMasked, 0},
        [&](int token) {
          Counted at{kMasked, 0};
          if (last && by_lists)
            at.logit = row.adjusted[token];
          else if (allowed == nullptr ||
                   (token / 32 < allowed_words && (allowed[token / 32] >> (token % 32) & 1U) != 0))
            at.logit = row.raw[token];
          if (last && counts != nullptr) at.seen = counts[token];
          return at;
        },
        [&](int token, Counted at) {
          if (token < 0) return;
          const float logit = penalised(penalties, at.logit, at.seen);
          row.adjusted[token] = logit;
          best = likelier(best, {logit, token});
        });
    if (last) break;
    best = {kMasked, std::numeric_limits<int>::max()};
    __syncthreads();
    for (int list = 0; list < 2; ++list)
      for (int i = row.thread; i < of.masked_count[list]; i += row.threads)
        if (within(row, of.masked[list][i])) row.adjusted[of.masked[list][i]] = kMasked;
    __syncthreads();
    add_bias(row, of.bias, of.bias_count);
    __syncthreads();
  }
  return block_best(row, best);
}

}  // namespace saccade::cuda::sampling
