// Attention on tensor cores over bf16, in pages or rows; and which kernel a call is for.
#include "ops/cuda/attention_tiles.h"

namespace saccade::cuda {
namespace {

template <int kDim>
struct Numbers {
  using Element = Bf16;
  using S = AttentionSizes<kDim>;
  static constexpr int kStride = kDim + 8;
  static constexpr bool kScaled = false;
  static constexpr int kOutStep = 1;
  static SACCADE_DEVICE int query_place(int col) { return col; }
  static SACCADE_DEVICE int out_col(int d, int lane) { return d * 8 + lane % 4 * 2; }

  static SACCADE_DEVICE void score(float (&scores)[S::kTokenTiles][4], const Bf16* queries,
                                   const Bf16* keys, int lane) {
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      std::uint32_t a[4];
      ldmatrix(a, queries + lane % 16 * S::kQueryStride + d + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; n += 2) {
        std::uint32_t b[4];
        ldmatrix(b, keys + (n * 8 + lane / 16 * 8 + lane % 8) * kStride + d + lane / 8 % 2 * 8);
        const std::uint32_t left[2] = {b[0], b[1]};
        const std::uint32_t right[2] = {b[2], b[3]};
        mma(scores[n], a, left);
        mma(scores[n + 1], a, right);
      }
    }
  }

  static SACCADE_DEVICE void mix(float (&out)[S::kDimTiles][4],
                                 const float (&weights)[S::kTokenTiles][4], const Bf16* values,
                                 int lane) {
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; n += 2) {
      std::uint32_t a[4];
      pack_weights(a, weights, n);
#pragma unroll
      for (int d = 0; d < S::kDimTiles; d += 2) {
        std::uint32_t b[4];
        ldmatrix_transposed(b, values + (n * 8 + lane % 16) * kStride + d * 8 + lane / 16 * 8);
        const std::uint32_t left[2] = {b[0], b[1]};
        const std::uint32_t right[2] = {b[2], b[3]};
        mma(out[d], a, left);
        mma(out[d + 1], a, right);
      }
    }
  }
};

// Whether every key and value row can be taken 16 bytes at a time.
bool takes(const AttentionKernelArgs& args) {
  if (args.q.type != DType::kBf16 || args.out.type != DType::kBf16 || args.head_dim > 256)
    return false;
  if (args.pages.base != nullptr) {
    if (!args.pages.coded() && args.pages.type != DType::kBf16) return false;
    return args.head_dim % (args.pages.coded() ? 16 : 8) == 0 &&
           whole_chunks(args.pages.base, args.pages.block_stride);
  }
  return args.head_dim % 8 == 0 && args.k.type == DType::kBf16 &&
         whole_chunks(args.k.data, 2 * args.k.stride) &&
         whole_chunks(args.v.data, 2 * args.v.stride);
}

}  // namespace

void launch_attention(const AttentionKernelArgs& args, cudaStream_t stream) {
  if (args.tile_count == 0) return;
  if (!takes(args)) {
    launch_attention_f32(args, stream);
    return;
  }
  if (args.pages.base != nullptr && args.pages.coded())
    launch_attention_codes(args, stream);
  else
    launch_attention_form<Numbers>(args, stream);
  if (args.splits.parts != nullptr) launch_attention_merge(args, stream);
}

}  // namespace saccade::cuda
