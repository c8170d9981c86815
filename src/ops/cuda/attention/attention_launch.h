// Launches a Form's kernels: a block for each part, or each tile, and key head.
#pragma once

#include <algorithm>

#include "ops/cuda/attention/attention_few.h"
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {

template <template <int> typename Form, int kDim>
void launch_attention_tiles(const AttentionTileArgs& args, cudaStream_t stream) {
  static_assert(attention_width(kDim) == kDim);
  using Of = Form<kDim>;
  const AttentionSplits& splits = args.splits;
  const bool parts = splits.parts != nullptr;
  const std::int64_t few = parts ? splits.few_parts : args.few_tiles;
  const std::int64_t count = parts ? splits.part_count : args.tile_count;
  const auto grid = [&](std::int64_t blocks) {
    return dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(args.kv_heads));
  };
  if (few > 0)
    SACCADE_LAUNCH((few_attention_kernel<Of, kDim>), grid(few), dim3(kAttentionThreads),
                   (FewSizes<Of, kDim>::kSharedBytes), stream, args);
  constexpr int kSharedBytes = kQueryBytes<kDim> + 2 * AttentionStage<Of, kDim>::kBytes;
  const std::int64_t band = splits.band > 0 ? splits.band : count;
  AttentionTileArgs some = args;
  for (std::int64_t first = few; first < count; first += band) {
    if (parts)
      some.splits.parts = splits.parts + first;
    else
      some.tiles = args.tiles + first;
    SACCADE_LAUNCH((attention_kernel<Of, kDim>), grid(std::min(band, count - first)),
                   dim3(kAttentionThreads), kSharedBytes, stream, some);
  }
}

// Of the smallest size that holds a head.
template <template <int> typename Form>
void launch_attention_form(const AttentionTileArgs& args, cudaStream_t stream) {
  switch (attention_width(args.head_dim)) {
    case 64:
      return launch_attention_tiles<Form, 64>(args, stream);
    case 80:
      return launch_attention_tiles<Form, 80>(args, stream);
    case 96:
      return launch_attention_tiles<Form, 96>(args, stream);
    case 128:
      return launch_attention_tiles<Form, 128>(args, stream);
    default:
      return launch_attention_tiles<Form, 256>(args, stream);
  }
}

inline bool whole_chunks(const void* data, std::int64_t stride_bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0;
}

// What all blocks want to know.
inline AttentionTileArgs tile_args_of(const AttentionKernelArgs& call) {
  AttentionTileArgs args;
  static_cast<AttentionKernelArgs&>(args) = call;
  args.group = static_cast<std::int32_t>(call.heads / call.kv_heads);
  args.by_group = Divisor(args.group);
  args.dim = static_cast<std::int32_t>(call.head_dim);
  if (const KvPages& pages = call.pages; pages.base != nullptr) {
    const std::int64_t token_bytes = pages.head_dim * (pages.coded() ? 1 : 2);
    args.by_block = Divisor(pages.block_size);
    args.in_block = static_cast<std::int32_t>(pages.block_size);
    args.block_bytes = static_cast<std::uint32_t>(pages.block_stride);
    args.token_bytes = static_cast<std::int32_t>(token_bytes);
    args.head_bytes = pages.block_size * token_bytes;
    args.values_behind = pages.kv_heads * args.head_bytes;
  } else {
    args.token_bytes = static_cast<std::int32_t>(2 * call.k.stride);
    args.head_bytes = 2 * call.head_dim;
    args.values_behind =
        static_cast<const std::byte*>(call.v.data) - static_cast<const std::byte*>(call.k.data);
  }
  args.factor = call.softcap > 0 ? kLog2E : call.scale * kLog2E;
  if (call.softcap > 0) args.cap_exponent = 2 * kLog2E * call.scale / call.softcap;
  args.whole_queries = whole_chunks(call.q.data, 2 * call.q.stride);
  args.whole_out = whole_chunks(call.out.data, 2 * call.out.stride);
  return args;
}

}  // namespace saccade::cuda
