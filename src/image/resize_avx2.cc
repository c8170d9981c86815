// The resize passes for AVX2. A 23-bit weight is split into 15 low bits and the rest, so that
// pmaddwd multiplies two taps of 8-bit pixels at once; the two sums are joined at the end. All sums
// are modulo 2^32 and the true total fits, so the result is exact.
#include <cstring>
#include <vector>

#include "image/resize_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define SACCADE_AVX2 __attribute__((target("avx2")))

namespace saccade {
namespace {

constexpr int kLowBits = 15;
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

// Two neighbouring taps as pmaddwd wants them.
struct WeightPair {
  std::int32_t high = 0;
  std::int32_t low = 0;
};

WeightPair make_pair(std::int32_t first, std::int32_t second) {
  const auto join = [](std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>((static_cast<std::uint32_t>(a) & 0xffff) |
                                     static_cast<std::uint32_t>(b) << 16);
  };
  constexpr std::int32_t kMask = (1 << kLowBits) - 1;
  return {join(first >> kLowBits, second >> kLowBits), join(first & kMask, second & kMask)};
}

// --- horizontal ---------------------------------------------------------------------------------

constexpr int kGroup = 4;       // taps a step
constexpr int kRowsAtOnce = 4;  // rows that share one load of the weights
constexpr int kLoadBytes = 16;  // of which 12 are used

// Four taps in the layout of one step: lane 0 has taps 0 and 1, lane 1 has taps 2 and 3, each pair
// once a channel.
struct GroupWeights {
  std::int32_t high[8];
  std::int32_t low[8];
};

std::vector<GroupWeights> spread_weights(const ResampleTable& table, int groups) {
  std::vector<GroupWeights> spread(static_cast<std::size_t>(table.outputs()) *
                                   static_cast<std::size_t>(groups));
  GroupWeights* to = spread.data();
  for (int i = 0; i < table.outputs(); ++i) {
    const std::int32_t* weights = table.weights_of(i);
    const auto tap = [&](int k) { return k < table.taps ? weights[k] : 0; };
    for (int group = 0; group < groups; ++group, ++to) {
      for (int lane = 0; lane < 2; ++lane) {
        const int k = group * kGroup + lane * 2;
        const WeightPair pair = make_pair(tap(k), tap(k + 1));
        for (int c = 0; c < 4; ++c) {
          to->high[lane * 4 + c] = pair.high;
          to->low[lane * 4 + c] = pair.low;
        }
      }
    }
  }
  return spread;
}

SACCADE_AVX2 inline __m128i join_sums(__m256i high, __m256i low) {
  const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low);
  const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  return _mm_srai_epi32(_mm_add_epi32(both, _mm_set1_epi32(kHalf)), kWeightBits);
}

// One output column of Rows rows. `from[r]` may be read kLoadBytes past the last tap's start.
template <int Rows>
SACCADE_AVX2 void make_rows(const std::uint8_t* const (&from)[Rows], const ResampleTable& table,
                            const std::vector<GroupWeights>& spread, int groups,
                            std::uint8_t* const (&to)[Rows]) {
  // Bytes r0 r1, g0 g1, b0 b1 to 16 bits (taps 0 and 1; the second lane takes 2 and 3).
  const __m256i pick = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6,
                                        -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const GroupWeights* weights = spread.data();
  for (int i = 0; i < table.outputs(); ++i, weights += groups) {
    const std::size_t start =
        static_cast<std::size_t>(table.first[static_cast<std::size_t>(i)]) * 3;
    const int used = (table.count[static_cast<std::size_t>(i)] + kGroup - 1) / kGroup;
    __m256i high[Rows], low[Rows];
    for (int r = 0; r < Rows; ++r) high[r] = low[r] = _mm256_setzero_si256();
    for (int group = 0; group < used; ++group) {
      const __m256i w_high =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights[group].high));
      const __m256i w_low =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights[group].low));
      for (int r = 0; r < Rows; ++r) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(
            from[r] + start + static_cast<std::size_t>(group) * 12));
        const __m256i pairs = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), pick);
        high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(pairs, w_high));
        low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(pairs, w_low));
      }
    }
    for (int r = 0; r < Rows; ++r) {
      const __m128i sums = join_sums(high[r], low[r]);
      const __m128i words = _mm_packs_epi32(sums, sums);
      const int rgb = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
      std::memcpy(to[r] + 3 * i, &rgb, 3);
    }
  }
}

SACCADE_AVX2 void horizontal(const std::uint8_t* from, int width, int rows,
                             const ResampleTable& table, std::uint8_t* to) {
  const int groups = (table.taps + kGroup - 1) / kGroup;
  const std::vector<GroupWeights> spread = spread_weights(table, groups);
  const std::size_t from_bytes = static_cast<std::size_t>(width) * 3;
  const std::size_t to_bytes = static_cast<std::size_t>(table.outputs()) * 3;
  // A step may read past its row; rows where that leaves the image are copied out first.
  const std::size_t image_bytes = from_bytes * static_cast<std::size_t>(rows);
  int safe_rows = rows;
  while (safe_rows > 0 &&
         from_bytes * static_cast<std::size_t>(safe_rows) + kLoadBytes > image_bytes) {
    --safe_rows;
  }
  int y = 0;
  for (; y + kRowsAtOnce <= safe_rows; y += kRowsAtOnce) {
    const std::uint8_t* const sources[kRowsAtOnce] = {from, from + from_bytes,
                                                      from + 2 * from_bytes, from + 3 * from_bytes};
    std::uint8_t* const targets[kRowsAtOnce] = {to, to + to_bytes, to + 2 * to_bytes,
                                                to + 3 * to_bytes};
    make_rows<kRowsAtOnce>(sources, table, spread, groups, targets);
    from += kRowsAtOnce * from_bytes;
    to += kRowsAtOnce * to_bytes;
  }
  std::vector<std::uint8_t> padded(from_bytes + kLoadBytes);
  for (; y < rows; ++y, from += from_bytes, to += to_bytes) {
    std::memcpy(padded.data(), from, from_bytes);
    const std::uint8_t* const sources[1] = {padded.data()};
    std::uint8_t* const targets[1] = {to};
    make_rows<1>(sources, table, spread, groups, targets);
  }
}

// --- vertical -----------------------------------------------------------------------------------

constexpr std::size_t kBlock = 32;  // bytes of a row at once

SACCADE_AVX2 inline __m256i load(const std::uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

// Bytes [x, x + kBlock) of one output row.
SACCADE_AVX2 void make_block(const std::uint8_t* column, std::size_t row_bytes, int count,
                             const std::vector<WeightPair>& pairs, std::uint8_t* to) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i high[4], low[4];  // bytes 0..3 and 16..19, 4..7 and 20..23, and so on
  for (int q = 0; q < 4; ++q) high[q] = low[q] = zero;
  for (int k = 0; k < count; k += 2) {
    const __m256i first = load(column + static_cast<std::size_t>(k) * row_bytes);
    const __m256i second =
        k + 1 < count ? load(column + static_cast<std::size_t>(k + 1) * row_bytes) : zero;
    const WeightPair& pair = pairs[static_cast<std::size_t>(k / 2)];
    const __m256i w_high = _mm256_set1_epi32(pair.high);
    const __m256i w_low = _mm256_set1_epi32(pair.low);
    const __m256i left = _mm256_unpacklo_epi8(first, second);
    const __m256i right = _mm256_unpackhi_epi8(first, second);
    const __m256i taps[4] = {_mm256_unpacklo_epi8(left, zero), _mm256_unpackhi_epi8(left, zero),
                             _mm256_unpacklo_epi8(right, zero), _mm256_unpackhi_epi8(right, zero)};
    for (int q = 0; q < 4; ++q) {
      high[q] = _mm256_add_epi32(high[q], _mm256_madd_epi16(taps[q], w_high));
      low[q] = _mm256_add_epi32(low[q], _mm256_madd_epi16(taps[q], w_low));
    }
  }
  __m256i sums[4];
  for (int q = 0; q < 4; ++q) {
    const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high[q], kLowBits), low[q]);
    sums[q] = _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(kHalf)), kWeightBits);
  }
  // The packs work within lanes, as the unpacks did.
  const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]),
                                            _mm256_packs_epi32(sums[2], sums[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
}

SACCADE_AVX2 void vertical(const std::uint8_t* from, std::size_t row_bytes,
                           const ResampleTable& table, std::uint8_t* to) {
  if (row_bytes < kBlock) return portable_resize_kernels().vertical(from, row_bytes, table, to);
  std::vector<WeightPair> pairs(static_cast<std::size_t>(table.taps) / 2 + 1);
  for (int i = 0; i < table.outputs(); ++i, to += row_bytes) {
    const std::int32_t* weights = table.weights_of(i);
    const int count = table.count[static_cast<std::size_t>(i)];
    for (int k = 0; k < count; k += 2) {
      pairs[static_cast<std::size_t>(k / 2)] =
          make_pair(weights[k], k + 1 < count ? weights[k + 1] : 0);
    }
    const std::uint8_t* column =
        from + static_cast<std::size_t>(table.first[static_cast<std::size_t>(i)]) * row_bytes;
    for (std::size_t x = 0; x < row_bytes; x += kBlock) {
      const std::size_t at = std::min(x, row_bytes - kBlock);  // the last block overlaps
      make_block(column + at, row_bytes, count, pairs, to + at);
    }
  }
}

}  // namespace

const ResizeKernels* avx2_resize_kernels() {
  static constexpr ResizeKernels kKernels{horizontal, vertical};
  static const bool available = __builtin_cpu_supports("avx2") != 0;
  return available ? &kKernels : nullptr;
}

}  // namespace saccade

#else

namespace saccade {
const ResizeKernels* avx2_resize_kernels() { return nullptr; }
}  // namespace saccade

#endif
