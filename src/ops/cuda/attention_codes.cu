// Attention on tensor cores over pages of bytes. Codes stay codes in shared memory and become pairs
// of bf16 in registers, which loses nothing; scales go to scores and weights.
//
// ldmatrix moves 16 bits at a time: two codes, of neighbouring columns. So a pair of codes 16 bits
// apart is of every other column of a key, and of one column of two tokens of values; columns of a
// query, and of the result, are named accordingly.
#include "ops/cuda/attention_tiles.h"
#include "ops/cuda/code_pairs.h"

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
  using S = AttentionSizes<kDim>;
  // An odd number of 16 bytes: eight rows that ldmatrix takes meet no bank twice.
  static constexpr int kStride = kDim / 16 % 2 == 0 ? kDim + 16 : kDim;
  static constexpr bool kScaled = true;
  static constexpr int kOutStep = 2;

  // Of 16 columns a lane of a quad has four in a row of a key; mma() takes the first and the third
  // of them for its columns 2 quad and 2 quad + 1, the others for those 8 further on.
  static SACCADE_DEVICE int query_place(int col) {
    return col / 16 * 16 + col % 2 * 8 + col % 16 / 4 * 2 + col % 4 / 2;
  }
  // Tiles come in twos: the even columns of 16, and the odd ones.
  static SACCADE_DEVICE int out_col(int d, int lane) { return code_column(d * 8 + lane % 4 * 2); }

  static SACCADE_DEVICE void score(float (&scores)[S::kTokenTiles][4], const Bf16* queries,
                                   const std::uint8_t* keys, int lane) {
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      std::uint32_t a[4];
      ldmatrix(a, queries + lane % 16 * S::kQueryStride + d + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; n += 4) {
        std::uint32_t words[4];
        ldmatrix(words, keys + (n * 8 + lane) * kStride + d);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const std::uint32_t b[2] = {Pairs::lower(words[i]), Pairs::upper(words[i])};
          mma(scores[n + i], a, b);
        }
      }
    }
  }

  static SACCADE_DEVICE void mix(float (&out)[S::kDimTiles][4],
                                 const float (&weights)[S::kTokenTiles][4],
                                 const std::uint8_t* values, int lane) {
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; n += 4) {
      std::uint32_t first[4];
      std::uint32_t second[4];
      pack_weights(first, weights, n);
      pack_weights(second, weights, n + 2);
#pragma unroll
      for (int d = 0; d < S::kDimTiles; d += 2) {
        std::uint32_t words[4];
        ldmatrix_transposed(words, values + (n * 8 + lane) * kStride + d * 8);
        const std::uint32_t even[2] = {Pairs::lower(words[0]), Pairs::lower(words[1])};
        const std::uint32_t odd[2] = {Pairs::upper(words[0]), Pairs::upper(words[1])};
        const std::uint32_t next_even[2] = {Pairs::lower(words[2]), Pairs::lower(words[3])};
        const std::uint32_t next_odd[2] = {Pairs::upper(words[2]), Pairs::upper(words[3])};
        mma(out[d], first, even);
        mma(out[d + 1], first, odd);
        mma(out[d], second, next_even);
        mma(out[d + 1], second, next_odd);
      }
    }
  }
};

template <int kDim>
using Int8Codes = Codes<Int8Pairs, kDim>;
template <int kDim>
using E4m3Codes = Codes<E4m3Pairs, kDim>;

}  // namespace

void launch_attention_codes(const AttentionKernelArgs& args, cudaStream_t stream) {
  if (args.pages.type == DType::kI8)
    launch_attention_form<Int8Codes>(args, stream);
  else
    launch_attention_form<E4m3Codes>(args, stream);
}

}  // namespace saccade::cuda
