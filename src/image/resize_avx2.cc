// The resize passes for AVX2. A 23-bit weight is split into 15 low bits and the rest, so that
// pmaddwd multiplies two taps of 8-bit pixels at once; the two sums are joined at the end. All sums
// are modulo 2^32 and the true total fits, so the result is exact.
#include <algorithm>
#include <cstring>

#include "image/resize_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define SACCADE_AVX2 __attribute__((target("avx2")))

namespace saccade {
namespace {

constexpr int kLowBits = 15;
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

// Packed weights: for each group of four taps, the high and the low halves of taps 0 and 1, then of
// taps 2 and 3; two 16-bit halves a word.
constexpr std::size_t kWords = 4;

std::size_t groups_of(const ResampleTable& table) {
  return static_cast<std::size_t>((table.taps + kTapGroup - 1) / kTapGroup);
}

std::vector<std::int32_t> pack(const ResampleTable& table) {
  constexpr std::int32_t kMask = (1 << kLowBits) - 1;
  const auto join = [](std::int32_t first, std::int32_t second) {
    return static_cast<std::int32_t>((static_cast<std::uint32_t>(first) & 0xffff) |
                                     static_cast<std::uint32_t>(second) << 16);
  };
  std::vector<std::int32_t> packed;
  packed.reserve(static_cast<std::size_t>(table.outputs()) * groups_of(table) * kWords);
  for (int i = 0; i < table.outputs(); ++i) {
    for (int tap = 0; tap < table.taps; tap += kTapGroup) {
      for (int k = tap; k < tap + kTapGroup; k += 2) {
        const std::int32_t a = table.weight(i, k), b = table.weight(i, k + 1);
        packed.push_back(join(a >> kLowBits, b >> kLowBits));
        packed.push_back(join(a & kMask, b & kMask));
      }
    }
  }
  return packed;
}

SACCADE_AVX2 inline __m256i finish(__m256i high, __m256i low) {
  const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low);
  return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(kHalf)), kWeightBits);
}

// --- horizontal: two rows a register, one a lane ------------------------------------------------

constexpr int kRows = 4;

SACCADE_AVX2 inline __m256i load_pair(const std::uint8_t* a, const std::uint8_t* b) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1);
}

// `from` and `to` hold kRows rows each; the same row may stand in them twice.
SACCADE_AVX2 void make_rows(const std::uint8_t* const (&from)[kRows], const ResampleTable& table,
                            const std::int32_t* packed, std::uint8_t* const (&to)[kRows]) {
  // From RGB bytes: the 16-bit pairs r0 r1, g0 g1, b0 b1 of two taps.
  const __m256i taps01 = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m256i taps23 = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
  const std::size_t step = groups_of(table) * kWords;
  const int outputs = table.outputs();
  for (int i = 0; i < outputs; ++i, packed += step) {
    std::size_t at = static_cast<std::size_t>(table.first[static_cast<std::size_t>(i)]) * 3;
    const std::int32_t* weights = packed;
    __m256i high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i low[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int k = table.count[static_cast<std::size_t>(i)]; k > 0; k -= kTapGroup) {
      const __m256i high01 = _mm256_set1_epi32(weights[0]), low01 = _mm256_set1_epi32(weights[1]);
      const __m256i high23 = _mm256_set1_epi32(weights[2]), low23 = _mm256_set1_epi32(weights[3]);
      for (int r = 0; r < 2; ++r) {
        const __m256i bytes = load_pair(from[2 * r] + at, from[2 * r + 1] + at);
        const __m256i first = _mm256_shuffle_epi8(bytes, taps01);
        const __m256i second = _mm256_shuffle_epi8(bytes, taps23);
        high[r] = _mm256_add_epi32(high[r], _mm256_add_epi32(_mm256_madd_epi16(first, high01),
                                                             _mm256_madd_epi16(second, high23)));
        low[r] = _mm256_add_epi32(low[r], _mm256_add_epi32(_mm256_madd_epi16(first, low01),
                                                           _mm256_madd_epi16(second, low23)));
      }
      weights += kWords;
      at += 3 * kTapGroup;
    }
    // Rows 0 2 | 1 3.
    const __m256i words = _mm256_packs_epi32(finish(high[0], low[0]), finish(high[1], low[1]));
    const __m256i bytes = _mm256_packus_epi16(words, words);
    alignas(32) std::uint32_t rgb[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(rgb), bytes);
    const std::uint32_t pixels[kRows] = {rgb[0], rgb[4], rgb[1], rgb[5]};
    // A fourth byte is overwritten by the next pixel.
    const std::size_t bytes_out = i + 1 < outputs ? 4 : 3;
    for (int r = 0; r < kRows; ++r) {
      if (bytes_out == 4) {
        std::memcpy(to[r] + 3 * i, &pixels[r], 4);
      } else {
        std::memcpy(to[r] + 3 * i, &pixels[r], 3);
      }
    }
  }
}

void horizontal(const std::uint8_t* from, int width, int rows, const ResampleTable& table,
                const std::vector<std::int32_t>& packed, std::uint8_t* to) {
  const std::size_t from_bytes = static_cast<std::size_t>(width) * 3;
  const std::size_t to_bytes = static_cast<std::size_t>(table.outputs()) * 3;
  for (int y = 0; y < rows; y += kRows) {
    const std::uint8_t* sources[kRows];
    std::uint8_t* targets[kRows];
    for (int r = 0; r < kRows; ++r) {
      const auto row = static_cast<std::size_t>(std::min(y + r, rows - 1));
      sources[r] = from + row * from_bytes;
      targets[r] = to + row * to_bytes;
    }
    make_rows(sources, table, packed.data(), targets);
  }
}

// --- vertical -----------------------------------------------------------------------------------

constexpr std::size_t kBlock = 32;  // bytes of a row at once

SACCADE_AVX2 inline __m256i load(const std::uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

SACCADE_AVX2 void make_block(const std::uint8_t* column, std::size_t row_bytes, int count,
                             const std::int32_t* weights, std::uint8_t* to) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i high[4], low[4];  // bytes 0..3 and 16..19, 4..7 and 20..23, and so on
  for (int q = 0; q < 4; ++q) high[q] = low[q] = zero;
  for (int k = 0; k < count; k += 2, weights += 2) {
    const __m256i first = load(column + static_cast<std::size_t>(k) * row_bytes);
    const __m256i second =
        k + 1 < count ? load(column + static_cast<std::size_t>(k + 1) * row_bytes) : zero;
    const __m256i w_high = _mm256_set1_epi32(weights[0]);
    const __m256i w_low = _mm256_set1_epi32(weights[1]);
    const __m256i left = _mm256_unpacklo_epi8(first, second);
    const __m256i right = _mm256_unpackhi_epi8(first, second);
    const __m256i taps[4] = {_mm256_unpacklo_epi8(left, zero), _mm256_unpackhi_epi8(left, zero),
                             _mm256_unpacklo_epi8(right, zero), _mm256_unpackhi_epi8(right, zero)};
    for (int q = 0; q < 4; ++q) {
      high[q] = _mm256_add_epi32(high[q], _mm256_madd_epi16(taps[q], w_high));
      low[q] = _mm256_add_epi32(low[q], _mm256_madd_epi16(taps[q], w_low));
    }
  }
  // The packs work within lanes, as the unpacks did.
  const __m256i left = _mm256_packs_epi32(finish(high[0], low[0]), finish(high[1], low[1]));
  const __m256i right = _mm256_packs_epi32(finish(high[2], low[2]), finish(high[3], low[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_packus_epi16(left, right));
}

void vertical(const std::uint8_t* from, std::size_t row_bytes, const ResampleTable& table,
              const std::vector<std::int32_t>& packed, int output, std::uint8_t* to) {
  if (row_bytes < kBlock)
    return portable_resize_kernels().vertical(from, row_bytes, table, packed, output, to);
  const std::int32_t* weights =
      packed.data() + static_cast<std::size_t>(output) * groups_of(table) * kWords;
  for (std::size_t x = 0; x < row_bytes; x += kBlock) {
    const std::size_t at = std::min(x, row_bytes - kBlock);  // the last block overlaps
    make_block(from + at, row_bytes, table.count[static_cast<std::size_t>(output)], weights,
               to + at);
  }
}

}  // namespace

const ResizeKernels* avx2_resize_kernels() {
  static constexpr ResizeKernels kKernels{pack, horizontal, vertical};
  static const bool available = __builtin_cpu_supports("avx2") != 0;
  return available ? &kKernels : nullptr;
}

}  // namespace saccade

#else

namespace saccade {
const ResizeKernels* avx2_resize_kernels() { return nullptr; }
}  // namespace saccade

#endif
