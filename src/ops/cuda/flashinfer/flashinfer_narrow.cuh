// FlashInfer's kernel for heads that are narrower than its tiles, which its own launches have no
// word for. What it multiplies stays as wide as the tiles. The tensor maps of q, k and v end where
// a head does, and TMA fills what lies behind with zeros: scores are the head's, and so are the
// first columns of the results. Those alone are stored.
#pragma once

#include "ops/cuda/flashinfer/flashinfer_launch.cuh"

namespace saccade::cuda {

// Theirs stores rows as wide as the tile, over the next head's columns.
template <typename Traits>
struct NarrowEpilogue : flashinfer::CollectiveEpilogue<Traits> {
  using Base = flashinfer::CollectiveEpilogue<Traits>;
  using Pack = cute::uint128_t;

  template <typename Results, typename Sums, typename Shared, typename Multiply, typename Place>
  CUTLASS_DEVICE void store(const typename Base::Params& params, const Results& results,
                            const Sums& /*sums*/, Shared& shared, Multiply multiply, int thread,
                            const Place& place) {
    constexpr int kThreads = Traits::NUM_MMA_THREADS;
    constexpr int kPerPack = sizeof(Pack) / sizeof(FlashElement);
    constexpr int kPacks = Traits::HEAD_DIM_VO / kPerPack;  // of a row of the tile

    auto rounded = cute::make_fragment_like<FlashElement>(results);
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < cute::size(results); ++i) rounded(i) = FlashElement(results(i));

    // The tile lies where values did: first nobody may read those any more.
    auto tile =
        cute::make_tensor(cute::make_smem_ptr(shared.smem_o.data()), typename Base::SmemLayoutO{});
    auto copy = cute::make_tiled_copy_C(typename Base::SmemCopyAtomO{}, multiply);
    auto part = copy.get_thread_slice(thread);
    cutlass::arch::NamedBarrier::sync(kThreads,
                                      static_cast<int>(flashinfer::NamedBarriers::kValueEmpty));
    cute::copy(copy, part.retile_S(rounded), part.partition_D(tile));
    cutlass::arch::fence_view_async_shared();  // TMA will fetch values to there again
    cutlass::arch::NamedBarrier::sync(kThreads,
                                      cutlass::arch::ReservedNamedBarriers::EpilogueBarrier);

    const int first = cute::get<0>(place) * Traits::CTA_Q;
    const int rows = min(cute::get<5>(place) - first, Traits::CTA_Q);
    const int width = cute::get<1>(params.layout_O.shape());
    const std::int64_t stride = cute::get<0>(params.layout_O.stride());
    FlashElement* const out = params.O_ptr + (cute::get<3>(place) + first) * stride +
                              cute::get<1>(place) * cute::get<2>(params.layout_O.stride());
    for (int i = thread; i < rows * kPacks; i += kThreads) {
      const int row = i / kPacks;
      const int col = i % kPacks * kPerPack;
      if (col < width)
        *reinterpret_cast<Pack*>(out + row * stride + col) =
            *reinterpret_cast<const Pack*>(&tile(row, col));
    }
  }

  // Of a tile that sees no key, which no plan has.
  template <typename Shared, typename Place>
  CUTLASS_DEVICE void store_zero(const typename Base::Params&, Shared&, int, const Place&) {}
};

inline int blocks_of_gpu() {
  int device = 0;
  int blocks = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device);
  return blocks;
}

// Heads of up to kTiles.head_dim, in whole pieces of 16 bytes.
template <const FlashForm& kTiles>
int launch_narrow_rows(const FlashArgs& args, cudaStream_t stream) {
  using Traits = FlashTraits<kTiles>;
  using Params =
      flashinfer::BatchPrefillRaggedParams<FlashElement, FlashElement, FlashElement, std::int32_t>;
  using Mainloop =
      flashinfer::CollectiveMainloop<typename Params::AdditionalParams, Traits, /*causal*/ false>;
  using Epilogue = NarrowEpilogue<Traits>;
  using Scheduler = flashinfer::BatchPrefillPersistentTileScheduler<std::int32_t>;
  const AttentionKernelArgs& from = args.attention;
  const Params params = flash_params<Params>(args);
  const auto layout = [&](const Rows& rows, std::int64_t heads) {
    return flashinfer::get_gmem_layout(static_cast<int>(rows.rows), static_cast<int>(heads),
                                       static_cast<int>(from.head_dim), rows.stride, from.head_dim);
  };
  typename Mainloop::Params mainloop = Mainloop::to_underlying_arguments(
      {params.q_ptr, layout(from.q, from.heads), static_cast<FlashElement*>(from.k.data),
       layout(from.k, from.kv_heads), static_cast<FlashElement*>(from.v.data),
       layout(from.v, from.kv_heads), params.window_left, params.additional_params});
  typename Epilogue::Params epilogue = Epilogue::to_underlying_arguments(
      {params.o_ptr, layout(from.out, from.heads), nullptr,
       flashinfer::get_lse_gmem_layout(static_cast<int>(from.q.rows), params.num_qo_heads)});
  typename Scheduler::Params scheduler = Scheduler::to_underlying_arguments(
      {params.work_indptr, params.head_indices, params.qo_tile_indices, params.qo_indptr,
       params.kv_indptr, params.qo_lens, params.kv_lens, params.batch_indices,
       cutlass::FastDivmod(params.group_size), params.num_qo_heads});

  const auto kernel = reinterpret_cast<const void*>(
      flashinfer::PrefillWithKVCacheKernel<Mainloop, Epilogue, Traits, /*window*/ false,
                                           /*causal*/ false, Scheduler>);
  constexpr int kShared = sizeof(typename Traits::SharedStorage);
  const cudaError_t allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (allowed != cudaSuccess) return allowed;
  void* all[] = {&mainloop, &epilogue, &scheduler};
  return cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks_of_gpu())),
                          dim3(Traits::NUM_THREADS), all, kShared, stream);
}

}  // namespace saccade::cuda
