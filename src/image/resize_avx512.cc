// The resize passes for AVX-512 with VNNI. A weight is three signed bytes, w = 65536 a + 256 b + c,
// and vpdpbusd multiplies four taps of 8-bit pixels by each at once. All sums are modulo 2^32 and
// the true total fits, so the result is exact.
#include <algorithm>
#include <cstring>

#include "image/resize_kernels.h"

#if defined(__x86_64__)
// g++ 12's own intrinsics start from a register that they never set.
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#define SACCADE_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace saccade {
namespace {

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

// Packed weights: for each group of four taps, their high bytes, their middle bytes, their low
// bytes; four taps a word.
constexpr std::size_t kWords = 3;

std::size_t groups_of(const ResampleTable& table) {
  return static_cast<std::size_t>((table.taps + kTapGroup - 1) / kTapGroup);
}

std::vector<std::int32_t> pack(const ResampleTable& table) {
  std::vector<std::int32_t> packed;
  packed.reserve(static_cast<std::size_t>(table.outputs()) * groups_of(table) * kWords);
  for (int i = 0; i < table.outputs(); ++i) {
    for (int tap = 0; tap < table.taps; tap += kTapGroup) {
      std::int8_t bytes[kWords][kTapGroup];
      for (int k = 0; k < kTapGroup; ++k) {
        const std::int32_t weight = table.weight(i, tap + k);
        bytes[2][k] = static_cast<std::int8_t>(weight);
        const std::int32_t rest = (weight - bytes[2][k]) >> 8;
        bytes[1][k] = static_cast<std::int8_t>(rest);
        bytes[0][k] = static_cast<std::int8_t>((rest - bytes[1][k]) >> 8);
      }
      for (const auto& word : bytes) {
        std::int32_t joined = 0;
        std::memcpy(&joined, word, sizeof(joined));
        packed.push_back(joined);
      }
    }
  }
  return packed;
}

// Three partial sums of 16 outputs.
struct Sums {
  __m512i high, middle, low;
};

SACCADE_AVX512 inline Sums zero_sums() {
  return {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
}

SACCADE_AVX512 inline void add(Sums& sums, __m512i taps, __m512i high, __m512i middle,
                               __m512i low) {
  sums.high = _mm512_dpbusd_epi32(sums.high, taps, high);
  sums.middle = _mm512_dpbusd_epi32(sums.middle, taps, middle);
  sums.low = _mm512_dpbusd_epi32(sums.low, taps, low);
}

// Rounded, not yet clipped.
SACCADE_AVX512 inline __m512i finish(const Sums& sums) {
  const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(sums.high, 8), sums.middle);
  const __m512i total = _mm512_add_epi32(_mm512_slli_epi32(upper, 8), sums.low);
  return _mm512_srai_epi32(_mm512_add_epi32(total, _mm512_set1_epi32(kHalf)), kWeightBits);
}

// --- horizontal: four rows a register, one a lane -----------------------------------------------

constexpr int kRows = 4;

SACCADE_AVX512 inline __m128i load16(const std::uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

// `from` and `to` hold kRows rows each; the same row may stand in them twice.
SACCADE_AVX512 void make_rows(const std::uint8_t* const (&from)[kRows], const ResampleTable& table,
                              const std::int32_t* packed, std::uint8_t* const (&to)[kRows]) {
  // From the RGB bytes of four taps: r0 r1 r2 r3, the same of green and blue, and nothing.
  const __m512i by_channel =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
  const std::size_t step = groups_of(table) * kWords;
  const int outputs = table.outputs();
  for (int i = 0; i < outputs; ++i, packed += step) {
    std::size_t at = static_cast<std::size_t>(table.first[static_cast<std::size_t>(i)]) * 3;
    const std::int32_t* weights = packed;
    Sums sums = zero_sums();
    for (int k = table.count[static_cast<std::size_t>(i)]; k > 0; k -= kTapGroup) {
      __m512i bytes = _mm512_castsi128_si512(load16(from[0] + at));
      bytes = _mm512_inserti32x4(bytes, load16(from[1] + at), 1);
      bytes = _mm512_inserti32x4(bytes, load16(from[2] + at), 2);
      bytes = _mm512_inserti32x4(bytes, load16(from[3] + at), 3);
      add(sums, _mm512_shuffle_epi8(bytes, by_channel), _mm512_set1_epi32(weights[0]),
          _mm512_set1_epi32(weights[1]), _mm512_set1_epi32(weights[2]));
      weights += kWords;
      at += 3 * kTapGroup;
    }
    const __m512i positive = _mm512_max_epi32(finish(sums), _mm512_setzero_si512());
    alignas(16) std::uint32_t pixels[kRows];
    _mm_store_si128(reinterpret_cast<__m128i*>(pixels), _mm512_cvtusepi32_epi8(positive));
    // A fourth byte is overwritten by the next pixel.
    if (i + 1 < outputs) {
      for (int r = 0; r < kRows; ++r) std::memcpy(to[r] + 3 * i, &pixels[r], 4);
    } else {
      for (int r = 0; r < kRows; ++r) std::memcpy(to[r] + 3 * i, &pixels[r], 3);
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

constexpr std::size_t kBlock = 64;  // bytes of a row at once

SACCADE_AVX512 void make_block(const std::uint8_t* column, std::size_t row_bytes, int count,
                               const std::int32_t* weights, std::uint8_t* to) {
  Sums sums[4];  // bytes 0..3 of each lane, 4..7, and so on
  for (Sums& sum : sums) sum = zero_sums();
  for (int k = 0; k < count; k += kTapGroup, weights += kWords) {
    __m512i rows[kTapGroup];
    for (int r = 0; r < kTapGroup; ++r) {  // past the end any row will do: its weight is zero
      const auto row = static_cast<std::size_t>(std::min(k + r, count - 1));
      rows[r] = _mm512_loadu_si512(column + row * row_bytes);
    }
    const __m512i left01 = _mm512_unpacklo_epi8(rows[0], rows[1]);
    const __m512i left23 = _mm512_unpacklo_epi8(rows[2], rows[3]);
    const __m512i right01 = _mm512_unpackhi_epi8(rows[0], rows[1]);
    const __m512i right23 = _mm512_unpackhi_epi8(rows[2], rows[3]);
    const __m512i high = _mm512_set1_epi32(weights[0]);
    const __m512i middle = _mm512_set1_epi32(weights[1]);
    const __m512i low = _mm512_set1_epi32(weights[2]);
    add(sums[0], _mm512_unpacklo_epi16(left01, left23), high, middle, low);
    add(sums[1], _mm512_unpackhi_epi16(left01, left23), high, middle, low);
    add(sums[2], _mm512_unpacklo_epi16(right01, right23), high, middle, low);
    add(sums[3], _mm512_unpackhi_epi16(right01, right23), high, middle, low);
  }
  // The packs work within lanes, as the unpacks did.
  const __m512i left = _mm512_packs_epi32(finish(sums[0]), finish(sums[1]));
  const __m512i right = _mm512_packs_epi32(finish(sums[2]), finish(sums[3]));
  _mm512_storeu_si512(to, _mm512_packus_epi16(left, right));
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

const ResizeKernels* avx512_resize_kernels() {
  static constexpr ResizeKernels kKernels{pack, horizontal, vertical};
  static const bool available = __builtin_cpu_supports("avx512bw") != 0 &&
                                __builtin_cpu_supports("avx512vl") != 0 &&
                                __builtin_cpu_supports("avx512vnni") != 0;
  return available ? &kKernels : nullptr;
}

}  // namespace saccade

#else

namespace saccade {
const ResizeKernels* avx512_resize_kernels() { return nullptr; }
}  // namespace saccade

#endif
