// Attention on tensor cores over bf16, in pages or rows; and which kernel a call is for.
#include "ops/cuda/attention/attention_launch.h"

namespace saccade::cuda {
namespace {

template <int kDim>
struct Numbers {
  using Element = Bf16;
  static constexpr int kStride = kDim + 8;
  static constexpr bool kScaled = false;
  static constexpr int kMixTokens = 16;

  template <bool kWhole>
  static SACCADE_DEVICE void query(std::uint32_t (&words)[2], const Bf16* row, int left, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Bf16* const from = row + i * 8 + lane % 4 * 2;
      if (left <= i * 8) continue;
      words[i] = kWhole ? *reinterpret_cast<const std::uint32_t*>(from) : pair_at(from, from + 1);
    }
  }

  template <bool kWhole>
  static SACCADE_DEVICE void put(Bf16* row, int left, const float (&low)[2], const float (&high)[2],
                                 int lane) {
    const auto put_pair = [&](Bf16* to, const float(&pair)[2]) {
      if constexpr (kWhole) {
        *reinterpret_cast<std::uint32_t*>(to) = pack_pair(pair[0], pair[1]);
      } else {
        narrow(pair[0], to[0]);
        narrow(pair[1], to[1]);
      }
    };
    if (left > 0) put_pair(row + lane % 4 * 2, low);
    if (left > 8) put_pair(row + 8 + lane % 4 * 2, high);
  }

  template <int kTiles, typename Query>
  static SACCADE_DEVICE void score(float (&scores)[kTiles][4], const Query& query, const Bf16* keys,
                                   int lane) {
    // Of 8 keys four matrices of 8 columns are taken at once, of 16 two.
    constexpr int kKeys = kTiles == 1 ? 8 : 16;
    constexpr int kSteps = 16 / kKeys;
#pragma unroll
    for (int d = 0; d < kDim; d += 16 * kSteps) {
      std::uint32_t a[kSteps][4];
#pragma unroll
      for (int i = 0; i < kSteps; ++i) query(a[i], d / 16 + i);
#pragma unroll
      for (int n = 0; n < kTiles; n += kKeys / 8) {
        std::uint32_t b[4];
        if constexpr (kKeys == 8)
          ldmatrix(b, keys + (n * 8 + lane % 8) * kStride + d + lane / 8 * 8);
        else
          ldmatrix(b, keys + (n * 8 + lane / 16 * 8 + lane % 8) * kStride + d + lane / 8 % 2 * 8);
        const std::uint32_t left[2] = {b[0], b[1]};
        const std::uint32_t right[2] = {b[2], b[3]};
        mma(scores[n], a[0], left);
        mma(scores[kKeys == 8 ? n : n + 1], a[kSteps - 1], right);
      }
    }
  }

  static SACCADE_DEVICE void mix(float (&low)[4], float (&high)[4],
                                 const std::uint32_t (&weights)[1][4], const Bf16* values,
                                 int lane) {
    std::uint32_t b[4];
    ldmatrix_transposed(b, values + lane % 16 * kStride + lane / 16 * 8);
    const std::uint32_t left[2] = {b[0], b[1]};
    const std::uint32_t right[2] = {b[2], b[3]};
    mma(low, weights[0], left);
    mma(high, weights[0], right);
  }
};

// From block to block, and from row to row.
constexpr std::int64_t kMaxStrideBytes = std::numeric_limits<std::int32_t>::max();

// Whether every key and value row can be taken 16 bytes at a time, and larger scores have larger
// exponents.
bool takes(const AttentionKernelArgs& args) {
  if (args.q.type != DType::kBf16 || args.out.type != DType::kBf16 || args.head_dim > 256)
    return false;
  if (!(args.scale > 0)) return false;
  if (args.pages.base != nullptr) {
    if (!args.pages.coded() && args.pages.type != DType::kBf16) return false;
    return args.head_dim % (args.pages.coded() ? 16 : 8) == 0 &&
           args.pages.block_stride <= kMaxStrideBytes &&
           whole_chunks(args.pages.base, args.pages.block_stride);
  }
  return args.head_dim % 8 == 0 && args.k.type == DType::kBf16 && args.k.stride == args.v.stride &&
         2 * args.k.stride <= kMaxStrideBytes && whole_chunks(args.k.data, 2 * args.k.stride) &&
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
    launch_attention_form<Numbers>(tile_args_of(args), stream);
  if (args.splits.parts != nullptr) launch_attention_merge(args, stream);
}

}  // namespace saccade::cuda
