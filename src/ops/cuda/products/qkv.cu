// From the product of q, k and v to what attention reads, in one pass over each head: its norm, its
// rotation, and its place (q's padded rows; the page of k and v, in bytes with the row's scale).
#include "ops/cuda/attention/kv_codes.h"
#include "ops/cuda/rows/norm_sum.h"

namespace saccade::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kPack = 8;

// Where one head of one row comes from and goes to.
struct Head {
  const void* from;
  std::byte* to;  // of elements of `to_type`
  DType to_type;
  std::byte* scale;      // of bytes: where theirs goes; else null
  std::int64_t to_cols;  // those beyond head_dim become zero
  HeadNorm norm;
  bool turns;
};

SACCADE_DEVICE void find_page_row(Head& head, const KvPages& pages, std::int64_t slot,
                                  std::int64_t plane) {
  const std::int64_t block = slot / pages.block_size;
  const std::int64_t row = plane * pages.block_size + slot % pages.block_size;
  const std::int64_t element = pages.coded() ? 1 : pages.type == DType::kF32 ? 4 : 2;
  head.to_type = pages.type;
  head.to = pages.base + block * pages.block_stride + row * pages.head_dim * element;
  if (pages.coded()) head.scale = scale_place(pages, block, row);
}

template <typename T>
SACCADE_DEVICE Head head_of(const QkvKernelArgs& args, std::int64_t row, std::int64_t index,
                            std::int64_t heads, std::int64_t kv_heads) {
  const std::int64_t dim = args.head_dim;
  Head head;
  head.scale = nullptr;
  const bool turns = args.cos.data != nullptr;
  if (index < heads) {
    head.from = static_cast<const T*>(args.q.data) + row * args.q.stride + index * dim;
    head.to_cols = args.q_head_dim > 0 ? args.q_head_dim : dim;
    head.to = static_cast<std::byte*>(args.q_out.data) +
              (row * args.q_out.stride + index * head.to_cols) * std::int64_t{sizeof(T)};
    head.to_type = args.q_out.type;
    head.norm = args.q_norm;
    head.norm.weight += index * head.norm.step;
    head.turns = turns;
    return head;
  }
  const bool value = index >= heads + kv_heads;
  const std::int64_t kv_head = index - heads - (value ? kv_heads : 0);
  const Rows& rows = value ? args.v : args.k;
  head.from = static_cast<const T*>(rows.data) + row * rows.stride + kv_head * dim;
  head.to_cols = dim;
  head.norm = value ? HeadNorm{} : args.k_norm;
  head.norm.weight += kv_head * head.norm.step;
  head.turns = turns && !value;
  if (args.pages.base != nullptr) {
    find_page_row(head, args.pages, args.slots[row], (value ? kv_heads : 0) + kv_head);
  } else {
    head.to_type = args.k_out.type;
    head.to = static_cast<std::byte*>(args.k_out.data) +
              (row * args.k_out.stride + kv_head * dim) * std::int64_t{sizeof(T)};
  }
  return head;
}

SACCADE_DEVICE void put(const Head& head, std::int64_t col, float value) {
  if (head.to_type == DType::kF32)
    reinterpret_cast<float*>(head.to)[col] = value;
  else if (head.to_type == DType::kBf16)
    narrow(value, reinterpret_cast<Bf16*>(head.to)[col]);
  else
    narrow(value, reinterpret_cast<F16*>(head.to)[col]);
}

// A warp a head. Elements are read and written by the same lane: in place is safe.
template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    qkv_kernel(QkvKernelArgs args, std::int64_t rows, std::int64_t heads, std::int64_t kv_heads,
               std::int64_t each, bool packed) {
  const std::int64_t job = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (job >= rows * each) return;
  const std::int64_t row = job / each;
  const Head head = head_of<T>(args, row, job % each, heads, kv_heads);
  const T* const from = static_cast<const T*>(head.from);
  const auto lane = static_cast<std::int64_t>(threadIdx.x % 32);
  const std::int64_t dim = args.head_dim;

  float scale = 1;
  if (head.norm.weight != nullptr) {
    const auto cols = static_cast<int>(dim);
    const float sum = packed ? squares_by_warp<kPack>(from, cols, static_cast<int>(lane))
                             : squares_by_warp<1>(from, cols, static_cast<int>(lane));
    scale = norm_scale(sum, cols, head.norm.epsilon);
  }
  const auto as_stored = [](float x) {
    T rounded;
    narrow(x, rounded);
    return widen(rounded);
  };
  const auto at = [&](std::int64_t col) {
    const float x = widen(from[col]);
    if (head.norm.weight == nullptr) return x;
    return as_stored(normalised(x, scale, head.norm.offset + head.norm.weight[col], 0));
  };
  const std::int64_t pairs = head.turns ? args.cos.cols : 0;
  const float* const cos = static_cast<const float*>(args.cos.data) + row * args.cos.stride;
  const float* const sin = static_cast<const float*>(args.sin.data) + row * args.sin.stride;
  const auto each_col = [&](const auto& take) {
    for (std::int64_t pair = lane; pair < pairs; pair += 32) {
      const float a = at(pair);
      const float b = at(pair + pairs);
      const float turned[2] = {
          add_apart(multiply_apart(a, cos[pair]), -multiply_apart(b, sin[pair])),
          add_apart(multiply_apart(b, cos[pair]), multiply_apart(a, sin[pair]))};
      take(pair, as_stored(turned[0]));
      take(pair + pairs, as_stored(turned[1]));
    }
    for (std::int64_t col = 2 * pairs + lane; col < dim; col += 32) take(col, at(col));
  };
  if (head.scale != nullptr) {
    // Magnitudes are compared by their bits, where what is no number is the largest.
    unsigned most = 0;
    each_col([&](std::int64_t, float value) { most = larger(most, bits_of(value) & 0x7fffffffU); });
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
      most = larger(most, __shfl_xor_sync(kFullWarp, most, mask));
    const KvRounding rounding(head.to_type, most);
    each_col([&](std::int64_t col, float value) {
      head.to[col] = static_cast<std::byte>(rounding.code(value));
    });
    if (lane == 0) write_scale(rounding.scale(), head.scale);
    return;
  }
  each_col([&](std::int64_t col, float value) { put(head, col, value); });
  for (std::int64_t col = dim + lane; col < head.to_cols; col += 32) put(head, col, 0);
}

template <typename T>
void launch_as(const QkvKernelArgs& args, std::int64_t rows, std::int64_t heads,
               std::int64_t kv_heads, cudaStream_t stream) {
  const std::int64_t each = heads + (args.v.data != nullptr ? 2 : 1) * kv_heads;
  const std::int64_t blocks = (rows * each + kWarps - 1) / kWarps;
  // As a norm of queries and keys by itself would take them.
  Rows heads_of = args.q.data != nullptr ? args.q : args.k;
  heads_of.cols = args.head_dim;
  const bool packed = aligned(heads_of, kPack);
  SACCADE_LAUNCH((qkv_kernel<T>), dim3(static_cast<unsigned>(blocks)), dim3(kWarps * 32), 0, stream,
                 args, rows, heads, kv_heads, each, packed);
}

}  // namespace

void launch_qkv(const QkvKernelArgs& args, cudaStream_t stream) {
  const std::int64_t heads = args.q.data != nullptr ? args.q.cols / args.head_dim : 0;
  const std::int64_t kv_heads = args.k.data != nullptr ? args.k.cols / args.head_dim : 0;
  const Rows& first = args.q.data != nullptr ? args.q : args.k;
  if (first.rows == 0 || heads + kv_heads == 0) return;
  if (first.type == DType::kBf16)
    launch_as<Bf16>(args, first.rows, heads, kv_heads, stream);
  else
    launch_as<float>(args, first.rows, heads, kv_heads, stream);
}

}  // namespace saccade::cuda
