#include "model/quantization/code_rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "model/quantization/matrix_rows.h"

namespace saccade {
namespace {

constexpr int kClips = 24;
constexpr int kPatience = 3;
constexpr float kWidest = 1.06F;
constexpr float kStep = 0.02F;
constexpr float kLeast = 1e-30F;
constexpr float kNoFraction = 12582912.0F;  // adding 1.5 * 2^23 leaves no bits for a fraction

float rounded_scale(float scale, DType type) {
  if (type == DType::kBf16) return to_float(to_bf16(scale));
  if (type == DType::kF16) return to_float(to_f16(scale));
  return scale;
}

// The definition's sixteen parts, in vectors of L lanes. The search is compiled once for each
// instruction set, and none fuses a product with a sum: all give the same bits.
constexpr std::size_t kParts = 16;

struct Grid {
  float low;
  float high;
  float scale;
  float inverse;
};

template <std::size_t L>
struct Lanes;
#define SACCADE_LANES(n)                                             \
  template <>                                                        \
  struct Lanes<n> {                                                  \
    using Floats = float __attribute__((vector_size((n) * 4)));      \
    using Bits = std::int32_t __attribute__((vector_size((n) * 4))); \
    using Bytes = std::int8_t __attribute__((vector_size(n)));       \
  }
SACCADE_LANES(1);
SACCADE_LANES(2);
SACCADE_LANES(4);
SACCADE_LANES(8);
SACCADE_LANES(16);
#undef SACCADE_LANES

template <std::size_t L>
struct Vectors {
  using Floats = typename Lanes<L>::Floats;
  using Bits = typename Lanes<L>::Bits;
  using Bytes = typename Lanes<L>::Bytes;
  static constexpr std::size_t kVectors = kParts / L;

  // kParts values from `at` on; of the last few a copy with zeros behind, which add nothing to any
  // sum.
  [[gnu::always_inline]] static inline const float* block(const float* values, std::size_t count,
                                                          std::size_t at, float* copy) {
    if (at + kParts <= count) return values + at;
    std::memset(copy, 0, kParts * sizeof(float));
    std::memcpy(copy, values + at, (count - at) * sizeof(float));
    return copy;
  }

  // Each value becomes its code.
  [[gnu::always_inline]] static inline void to_codes(const Grid& grid, Floats& values) {
    const Floats low = Floats{} + grid.low;
    const Floats high = Floats{} + grid.high;
    values = values * grid.inverse;
    values = values < low ? low : values;
    values = values > high ? high : values;
    values = (values + kNoFraction) - kNoFraction;
  }

  // NaN when there is an infinity or a NaN.
  [[gnu::always_inline]] static inline float largest(const float* values, std::size_t count) {
    Floats most = {};
    Floats odd = {};  // NaN once there is one
    float copy[kParts];
    for (std::size_t at = 0; at < count; at += kParts) {
      const float* const from = block(values, count, at, copy);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kVectors; ++i) {
        Floats value;
        Bits bits;
        std::memcpy(&value, from + i * L, sizeof(value));
        std::memcpy(&bits, from + i * L, sizeof(bits));
        odd += value * 0.0F;
        bits &= 0x7fffffff;
        Floats magnitude;
        std::memcpy(&magnitude, &bits, sizeof(bits));
        most = magnitude > most ? magnitude : most;
      }
    }
    float odds[L];
    float mosts[L];
    std::memcpy(odds, &odd, sizeof(odds));
    std::memcpy(mosts, &most, sizeof(mosts));
    float all = 0;
    for (std::size_t i = 0; i < L; ++i) {
      if (odds[i] != 0) return std::numeric_limits<float>::quiet_NaN();
      all = mosts[i] > all ? mosts[i] : all;
    }
    return all;
  }

  // sums[i] += sums[i + N], and so on down to one.
  template <std::size_t N>
  [[gnu::always_inline]] static inline float by_halves(const float* sums) {
    if constexpr (N == 0) {
      return sums[0];
    } else {
      constexpr std::size_t kLanes = N < L ? N : L;
      using Half = typename Lanes<kLanes>::Floats;
      float halves[N];
      for (std::size_t i = 0; i < N; i += kLanes) {
        Half one;
        Half other;
        std::memcpy(&one, sums + i, sizeof(one));
        std::memcpy(&other, sums + N + i, sizeof(other));
        one += other;
        std::memcpy(halves + i, &one, sizeof(one));
      }
      return by_halves<N / 2>(halves);
    }
  }

  [[gnu::always_inline]] static inline float squared_error(const float* values, std::size_t count,
                                                           const Grid& grid) {
    Floats parts[kVectors] = {};
    float copy[kParts];
    for (std::size_t at = 0; at < count; at += kParts) {
      const float* const from = block(values, count, at, copy);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kVectors; ++i) {
        Floats value;
        std::memcpy(&value, from + i * L, sizeof(value));
        Floats code = value;
        to_codes(grid, code);
        const Floats error = value - code * grid.scale;
        parts[i] += error * error;
      }
    }
    float sums[kParts];
    std::memcpy(sums, parts, sizeof(sums));
    return by_halves<kParts / 2>(sums);
  }

  [[gnu::always_inline]] static inline void store_codes(const float* values, std::size_t count,
                                                        const Grid& grid, std::int8_t* codes) {
    float copy[kParts];
    for (std::size_t at = 0; at < count; at += kParts) {
      const float* const from = block(values, count, at, copy);
      std::int8_t some[kParts];
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kVectors; ++i) {
        Floats value;
        std::memcpy(&value, from + i * L, sizeof(value));
        to_codes(grid, value);
        const Bits whole = __builtin_convertvector(value, Bits);
        const Bytes bytes = __builtin_convertvector(whole, Bytes);
        std::memcpy(some + i * L, &bytes, sizeof(bytes));
      }
      std::memcpy(codes + at, some, std::min(kParts, count - at));
    }
  }

  [[gnu::always_inline]] static inline float round(const float* values, std::size_t count,
                                                   const CodeRounding& rounding,
                                                   std::int8_t* codes) {
    const float most = largest(values, count);
    Grid best{};
    if (most >= kLeast) {
      const auto levels = static_cast<float>(1 << (rounding.bits - 1));
      float least = std::numeric_limits<float>::infinity();
      int worse = 0;
      for (int i = 0; i < kClips && worse < kPatience; ++i) {
        const float scale =
            rounded_scale(most / (levels - 0.5F) * (kWidest - kStep * static_cast<float>(i)),
                          rounding.scale_type);
        if (!(scale > 0) || !std::isfinite(1 / scale)) break;  // below what the type has
        const Grid grid{-levels, levels - 1, scale, 1 / scale};
        const float error = squared_error(values, count, grid);
        worse = error < least ? 0 : worse + 1;
        if (error < least) {
          least = error;
          best = grid;
        }
      }
    }
    if (best.scale == 0) {
      std::memset(codes, 0, count);
      return std::isnan(most) ? most : 0.0F;
    }
    store_codes(values, count, best, codes);
    return best.scale;
  }
};

using Round = float (*)(const float* values, std::size_t count, const CodeRounding& rounding,
                        std::int8_t* codes);

float round_anywhere(const float* values, std::size_t count, const CodeRounding& rounding,
                     std::int8_t* codes) {
  return Vectors<4>::round(values, count, rounding, codes);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] float round_avx2(const float* values, std::size_t count,
                                         const CodeRounding& rounding, std::int8_t* codes) {
  return Vectors<8>::round(values, count, rounding, codes);
}

[[gnu::target("avx512f")]] float round_avx512(const float* values, std::size_t count,
                                              const CodeRounding& rounding, std::int8_t* codes) {
  return Vectors<16>::round(values, count, rounding, codes);
}

std::vector<Round> ways() {
  std::vector<Round> all = {round_anywhere};
  if (__builtin_cpu_supports("avx2")) all.push_back(round_avx2);
  if (__builtin_cpu_supports("avx512f")) all.push_back(round_avx512);
  return all;
}
#else
std::vector<Round> ways() { return {round_anywhere}; }
#endif

// Codes of `bits` from -2^(bits-1) as the fields of words, from the lowest; `words` are zeros.
void pack_codes(std::span<const std::int8_t> codes, int bits, std::uint32_t* words) {
  std::size_t at = 0;
  if constexpr (std::endian::native == std::endian::little) {
    if (bits == 4) {
      for (; at + 8 <= codes.size(); at += 8) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, codes.data() + at, sizeof(eight));
        // The middle is added to the low half of each byte by turning its top bit round.
        eight = (eight & 0x0f0f0f0f0f0f0f0fU) ^ 0x0808080808080808U;
        eight = (eight | eight >> 4) & 0x00ff00ff00ff00ffU;
        eight = (eight | eight >> 8) & 0x0000ffff0000ffffU;
        words[at / 8] = static_cast<std::uint32_t>(eight | eight >> 16);
      }
    } else {
      for (; at + 4 <= codes.size(); at += 4) {
        std::uint32_t four = 0;
        std::memcpy(&four, codes.data() + at, sizeof(four));
        words[at / 4] = four ^ 0x80808080U;
      }
    }
  }
  const auto per_word = static_cast<std::size_t>(32 / bits);
  const int middle = 1 << (bits - 1);
  for (; at < codes.size(); ++at)
    words[at / per_word] |= static_cast<std::uint32_t>(codes[at] + middle)
                            << (static_cast<int>(at % per_word) * bits);
}

}  // namespace

int rounding_ways() { return static_cast<int>(ways().size()); }

float round_group(std::span<const float> values, const CodeRounding& rounding,
                  std::span<std::int8_t> codes) {
  static const Round best = ways().back();
  return best(values.data(), values.size(), rounding, codes.data());
}

float round_group(std::span<const float> values, const CodeRounding& rounding,
                  std::span<std::int8_t> codes, int way) {
  return ways().at(static_cast<std::size_t>(way))(values.data(), values.size(), rounding,
                                                  codes.data());
}

std::int64_t group_of_inputs(std::int64_t in, std::int64_t most) {
  for (const std::int64_t group : {128, 64, 32}) {
    if (group <= most && in % group == 0) return group;
  }
  return 0;
}

RoundedMatrix::RoundedMatrix(const StoredMatrix& weights, const CodeRounding& rounding,
                             ThreadPool& pool)
    : rounding_(rounding),
      out_(weights.out()),
      in_(weights.in()),
      group_(rounding.group == 0 ? in_ : rounding.group),
      groups_((in_ + group_ - 1) / group_) {
  CHECK(rounding.bits == 4 || rounding.bits == 8, "codes of {} bits", rounding.bits);
  const std::int64_t per_word = 32 / rounding.bits;
  row_words_ = (in_ + per_word - 1) / per_word;
  words_.resize(static_cast<std::size_t>(out_ * row_words_));
  const std::size_t width = size_of(rounding.scale_type);
  scales_.resize(static_cast<std::size_t>(out_ * groups_) * width);
  std::vector<std::vector<std::int8_t>> rooms(static_cast<std::size_t>(pool.size()));
  each_row(weights, pool, [&](std::int64_t row, std::span<const float> all, int worker) {
    std::vector<std::int8_t>& codes = rooms[static_cast<std::size_t>(worker)];
    codes.resize(static_cast<std::size_t>(in_));
    for (std::int64_t group = 0; group < groups_; ++group) {
      const auto at = static_cast<std::size_t>(group * group_);
      const auto count = static_cast<std::size_t>(std::min(group_, in_ - group * group_));
      const float scale =
          round_group(all.subspan(at, count), rounding_, std::span(codes).subspan(at, count));
      const std::uint16_t half =
          rounding_.scale_type == DType::kF16 ? to_f16(scale).bits : to_bf16(scale).bits;
      std::byte* const to =
          scales_.data() + static_cast<std::size_t>(row * groups_ + group) * width;
      if (rounding_.scale_type == DType::kF32)
        std::memcpy(to, &scale, width);
      else
        std::memcpy(to, &half, width);
    }
    pack_codes(codes, rounding_.bits, words_.data() + row * row_words_);
  });
}

StoredMatrix RoundedMatrix::shape(const StoredMatrix& weights, const CodeRounding& rounding) {
  StoredMatrix matrix;
  matrix.format = StoredMatrix::Format::kPacked;
  matrix.stored_out = matrix.out_end = weights.out();
  matrix.stored_in = matrix.in_end = weights.in();
  matrix.codes.dtype = DType::kI32;
  matrix.scales.dtype = rounding.scale_type;
  matrix.bits = rounding.bits;
  matrix.group = rounding.group == 0 ? weights.in() : rounding.group;
  return matrix;
}

StoredMatrix RoundedMatrix::matrix() const {
  StoredMatrix matrix;
  matrix.stored_out = matrix.out_end = out_;
  matrix.stored_in = matrix.in_end = in_;
  matrix = shape(matrix, rounding_);
  matrix.codes.bytes = std::as_bytes(std::span(words_));
  matrix.scales.bytes = scales_;
  return matrix;
}

}  // namespace saccade
