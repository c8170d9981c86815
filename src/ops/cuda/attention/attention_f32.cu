// Attention in f32 arithmetic, a warp a row and head: for runs in f32, and for head sizes and
// types that the tensor cores' kernels do not take. A key's scale goes to its score, a value's to
// its weight. A warp goes over its row's splits (attention_parts.h) in their order.
#include "ops/cuda/attention/attention_join.h"
#include "ops/cuda/attention/attention_rows.h"
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

constexpr int kWarps = 4;

template <typename Key>
constexpr bool kCoded = sizeof(Key) == 1;

// `scale`: of the key's row, where it has one.
template <typename Key>
SACCADE_DEVICE float score_of(const AttentionKernelArgs& args, const float* query, const Key* key,
                              float scale) {
  float sum = 0;
  for (std::int64_t dim = 0; dim < args.head_dim; ++dim) sum += query[dim] * widen(key[dim]);
  if (kCoded<Key>) sum *= scale;
  sum *= args.scale;
  return args.softcap > 0 ? args.softcap * tanhf(sum / args.softcap) : sum;
}

// Shared memory: for each warp its query, its sums of a split and of those before it, and the
// weights of 32 tokens.
// Four blocks are enough of them: for more the compiler would keep registers in memory.
template <typename T, typename Key>
__global__ void __launch_bounds__(kWarps * 32, 4) attention_f32_kernel(AttentionKernelArgs args) {
  SACCADE_DYNAMIC_SHARED(float, shared);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto dim = static_cast<int>(args.head_dim);
  float* const query = shared + warp * (3 * dim + 32);
  float* const sums = query + dim;
  float* const joined = sums + dim;
  float* const weights = joined + dim;
  const AttentionTile tile = args.tiles[blockIdx.x];
  const AttentionSequence sequence = args.sequences[tile.sequence];
  const std::int64_t kv_head = blockIdx.y;
  const std::int64_t group = args.heads / args.kv_heads;
  for (int i = warp; i < kAttentionTileRows; i += kWarps) {
    const RowPlace place = place_of(args, sequence, tile.first + i, group);
    if (!place.inside) return;  // nor is any row after it
    const std::int64_t head = (kv_head * group + place.member) * dim;
    const T* const q = static_cast<const T*>(args.q.data) + place.row * args.q.stride + head;
    for (int d = lane; d < dim; d += 32) {
      query[d] = widen(q[d]);
      joined[d] = 0;
    }
    __syncwarp();
    RowState state;
    for (std::int64_t first = place.begin / 32 * 32; first < place.end;) {
      const std::int64_t stop =
          smaller(std::int64_t{place.end},
                  (static_cast<std::int32_t>(first) / args.splits.tokens + std::int64_t{1}) *
                      args.splits.tokens);
      for (int d = lane; d < dim; d += 32) sums[d] = 0;
      float max = kUnseen;
      float total = 0;
      for (; first < stop; first += 32) {
        const std::int64_t token = first + lane;
        const Key* key = nullptr;
        float key_scale = 1;
        float value_scale = 1;
        if (token >= place.begin && token < place.end) {
          key = token_row<Key>(args, sequence, kv_head, false, token);
          if (kCoded<Key>) {
            key_scale = token_scale(args, sequence, kv_head, false, token);
            value_scale = token_scale(args, sequence, kv_head, true, token);
          }
        }
        const float score = key != nullptr ? score_of(args, query, key, key_scale) : kUnseen;
        const float larger_max = larger(max, warp_max(score));
        const float shrink = larger_max == max ? 1.0f : expf(max - larger_max);
        max = larger_max;
        const float weight = score == kUnseen ? 0.0f : expf(score - max);
        total = total * shrink + weight;
        weights[lane] = kCoded<Key> ? weight * value_scale : weight;
        __syncwarp();
        for (int d = lane; d < dim; d += 32) {
          float sum = sums[d] * shrink;
          for (int j = 0; j < 32; ++j) {
            if (weights[j] == 0) continue;
            const Key* const value = token_row<Key>(args, sequence, kv_head, true, first + j);
            sum += weights[j] * widen(value[d]);
          }
          sums[d] = sum;
        }
        __syncwarp();
      }
      const Join join(state, {max, warp_sum(total)}, [](float x) { return expf(x); });
      for (int d = lane; d < dim; d += 32) joined[d] = join.of(joined[d], sums[d]);
      state = join.state();
    }
    const float scale = state.sum > 0 ? 1 / state.sum : 0.0f;
    T* const out = static_cast<T*>(args.out.data) + place.row * args.out.stride + head;
    for (int d = lane; d < dim; d += 32) narrow(joined[d] * scale, out[d]);
    __syncwarp();
  }
}

template <typename T, typename Key>
void launch(const AttentionKernelArgs& args, cudaStream_t stream) {
  const std::size_t shared =
      static_cast<std::size_t>(kWarps * (3 * args.head_dim + 32)) * sizeof(float);
  SACCADE_LAUNCH((attention_f32_kernel<T, Key>),
                 dim3(static_cast<unsigned>(args.tile_count), static_cast<unsigned>(args.kv_heads)),
                 dim3(kWarps * 32), shared, stream, args);
}

}  // namespace

void launch_attention_f32(const AttentionKernelArgs& args, cudaStream_t stream) {
  const auto over = [&](auto key) {
    using Key = decltype(key);
    if (args.q.type == DType::kBf16)
      launch<Bf16, Key>(args, stream);
    else
      launch<float, Key>(args, stream);
  };
  const DType type = args.pages.base != nullptr ? args.pages.type : args.k.type;
  if (type == DType::kI8)
    over(std::int8_t{});
  else if (type == DType::kE4m3)
    over(E4m3{});
  else
    with_type(type, over);
}

}  // namespace saccade::cuda
