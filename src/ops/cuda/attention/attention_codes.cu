// Attention on tensor cores over pages of bytes. Codes stay codes in shared memory and become pairs
// of bf16 in registers, which loses nothing; scales go to scores and weights.
//
// ldmatrix moves 16 bits at a time: two codes, of neighbouring columns. So a pair of codes 16 bits
// apart is of every other column of a key, and of one column of two tokens of values; columns of a
// query, and of the result, are named accordingly.
#include "ops/cuda/attention/attention_launch.h"
#include "ops/cuda/codes/code_pairs.h"

namespace saccade::cuda {
namespace {

struct Int8Pairs {
  static SACCADE_DEVICE std::uint32_t lower(std::uint32_t word) { return byte_pair(word); }
  static SACCADE_DEVICE std::uint32_t upper(std::uint32_t word) { return byte_pair(word >> 8); }
};

struct E4m3Pairs {
  static SACCADE_DEVICE std::uint32_t lower(std::uint32_t word) { return e4m3_pair(word << 8); }
  static SACCADE_DEVICE std::uint32_t upper(std::uint32_t word) { return e4m3_pair(word); }
};

template <typename Pairs, int kDim>
struct Codes {
  using Element = std::uint8_t;
  // An odd number of 16 bytes: eight rows that ldmatrix takes meet no bank twice.
  static constexpr int kStride = kDim / 16 % 2 == 0 ? kDim + 16 : kDim;
  static constexpr bool kScaled = true;
  static constexpr int kMixTokens = 32;
  // Of 16 columns a lane of a quad has four in a row of a key; mma() takes the first and the third
  // of them for its columns 2 quad and 2 quad + 1, the others for those 8 further on.
  template <bool kWhole>
  static SACCADE_DEVICE void query(std::uint32_t (&words)[2], const Bf16* row, int left, int lane) {
    if (left <= 0) return;
    const Bf16* const from = row + lane % 4 * 4;
    if constexpr (!kWhole) {
      words[0] = pair_at(from, from + 2);
      words[1] = pair_at(from + 1, from + 3);
    } else {
      const Pack<2, std::uint32_t> pack = *reinterpret_cast<const Pack<2, std::uint32_t>*>(from);
      words[0] = (pack.values[0] & 0xffffU) | pack.values[1] << 16;
      words[1] = pack.values[0] >> 16 | (pack.values[1] & 0xffff0000U);
    }
  }

  // As code_column() has it: even columns of 16 are the lower tile's, odd ones the higher one's.
  template <bool kWhole>
  static SACCADE_DEVICE void put(Bf16* row, int left, const float (&low)[2], const float (&high)[2],
                                 int lane) {
    if (left <= 0) return;
    Bf16* const to = row + lane % 4 * 4;
    if constexpr (kWhole) {
      *reinterpret_cast<Pack<2, std::uint32_t>*>(to) = {
          {pack_pair(low[0], high[0]), pack_pair(low[1], high[1])}};
    } else {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        narrow(low[e], to[2 * e]);
        narrow(high[e], to[2 * e + 1]);
      }
    }
  }

  template <int kTiles, typename Query>
  static SACCADE_DEVICE void score(float (&scores)[kTiles][4], const Query& query,
                                   const std::uint8_t* keys, int lane) {
    // Of ldmatrix's four matrices of 8 keys and 16 columns: other keys, or other columns.
    constexpr int kKeyTiles = kTiles < 4 ? kTiles : 4;
    constexpr int kSteps = 4 / kKeyTiles;
#pragma unroll
    for (int d = 0; d < kDim; d += 16 * kSteps) {
      std::uint32_t a[kSteps][4];
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        if (d + 16 * step < kDim) query(a[step], d / 16 + step);
#pragma unroll
      for (int n = 0; n < kTiles; n += kKeyTiles) {
        // Behind the last columns there are none: lanes that would read there take those again.
        const int col = smaller(d + lane / 8 / kKeyTiles * 16, kDim - 16);
        std::uint32_t words[4];
        ldmatrix(words, keys + (n * 8 + lane % (8 * kKeyTiles)) * kStride + col);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          if (d + 16 * step >= kDim) continue;
#pragma unroll
          for (int i = 0; i < kKeyTiles; ++i) {
            const std::uint32_t word = words[step * kKeyTiles + i];
            const std::uint32_t b[2] = {Pairs::lower(word), Pairs::upper(word)};
            mma(scores[n + i], a[step], b);
          }
        }
      }
    }
  }

  static SACCADE_DEVICE void mix(float (&low)[4], float (&high)[4],
                                 const std::uint32_t (&weights)[2][4], const std::uint8_t* values,
                                 int lane) {
    std::uint32_t words[4];
    ldmatrix_transposed(words, values + lane * kStride);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t even[2] = {Pairs::lower(words[2 * i]), Pairs::lower(words[2 * i + 1])};
      const std::uint32_t odd[2] = {Pairs::upper(words[2 * i]), Pairs::upper(words[2 * i + 1])};
      mma(low, weights[i], even);
      mma(high, weights[i], odd);
    }
  }
};

template <int kDim>
using Int8Codes = Codes<Int8Pairs, kDim>;
template <int kDim>
using E4m3Codes = Codes<E4m3Pairs, kDim>;

}  // namespace

void launch_attention_codes(const AttentionKernelArgs& args, cudaStream_t stream) {
  const AttentionTileArgs tiles = tile_args_of(args);
  if (args.pages.type == DType::kI8)
    launch_attention_form<Int8Codes>(tiles, stream);
  else
    launch_attention_form<E4m3Codes>(tiles, stream);
}

}  // namespace saccade::cuda
