// FlashInfer's kernels for heads that are narrower than their tiles, which its own launches have no
// word for. What they multiply stays as wide as the tiles, and is zeros behind a head's end: the
// tensor maps of q, and over rows of k and v, end where a head does, and TMA fills the rest; keys
// and values of pages are fetched by a loop of our own. So scores are the head's, and so are the
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

// Causal, over pages. Theirs fetches rows as wide as the tile: of the next token, where there may
// be anything. The same pipelines: K of a tile before V of the one behind it.
template <typename More, typename Traits>
struct NarrowPagedMainloop : flashinfer::SparseCollectiveMainloop<More, Traits, /*causal*/ true> {
  using Base = flashinfer::SparseCollectiveMainloop<More, Traits, true>;
  using Pipeline = typename Base::MainloopPipeline;
  using State = typename Base::PipelineState;

  static constexpr int kPerPack = 16 / sizeof(FlashElement);
  static constexpr int kPacks = Traits::HEAD_DIM_QK / kPerPack;        // of a row of the tile
  static constexpr int kRows = Traits::NUM_PRODUCER_THREADS / kPacks;  // fetched at a time
  static constexpr int kSteps = Traits::CTA_KV / kRows;
  static_assert(kPacks == 16 && kSteps <= kPacks && Traits::CTA_KV % kRows == 0);

  template <bool kWindow, typename Shared, typename Scheduler, typename SchedulerParams,
            typename Work, typename Place>
  CUTLASS_DEVICE void load(const typename Base::Params& params, Pipeline keys, Pipeline values,
                           State& write_keys, State& write_values, Shared& shared,
                           Scheduler& scheduler, const SchedulerParams& scheduler_params,
                           Work& work, const Place& place, int work_index) {
    static_assert(!kWindow);
    const int count = cute::get<6>(place);
    const std::int32_t* const blocks = params.kv_indices + cute::get<4>(place);
    const std::int64_t head = cute::get<2>(place) * cute::get<2>(params.layout_K.stride());
    const std::int64_t token = cute::get<0>(params.layout_K.stride());
    const int lane = threadIdx.x % kPacks;  // fetches these columns of every kRows-th row
    const int row = threadIdx.x / kPacks;
    const int col = lane * kPerPack;
    const bool inside = col < cute::get<1>(params.layout_Q.shape());

    // Where the keys of a tile lie: lane i looks up its row's i-th.
    const auto look_up = [&](int tile) -> std::int64_t {
      const int key = tile * Traits::CTA_KV + row + lane * kRows;
      if (lane >= kSteps || key >= count) return 0;
      std::uint32_t block = 0;
      std::uint32_t slot = 0;
      params.page_size.divmod(static_cast<std::uint32_t>(key), block, slot);
      return blocks[block] * params.k_page_stride + slot * token;
    };
    const auto fetch = [&](Pipeline& pipeline, State& state, auto& to, const FlashElement* from,
                           int tile, std::int64_t places) {
      pipeline.producer_acquire(state);
      CUTLASS_PRAGMA_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        const std::int64_t at = __shfl_sync(0xffffffff, places, step, kPacks);
        const int in_tile = row + step * kRows;
        cutlass::arch::cp_async_zfill<16, cutlass::arch::CacheOperation::Global>(
            &to(in_tile, col, state.index()), from + head + at + col,
            inside && tile * Traits::CTA_KV + in_tile < count);
      }
      pipeline.producer_commit(state, cutlass::arch::cpasync_barrier_arrive);
      ++state;
    };

    auto k =
        cute::make_tensor(cute::make_smem_ptr(shared.smem_k.data()), typename Base::SmemLayoutK{});
    auto v =
        cute::make_tensor(cute::make_smem_ptr(shared.smem_v.data()), typename Base::SmemLayoutV{});
    int tile = this->get_num_kv_tiles(params, cute::get<0>(place), cute::get<5>(place), count) - 1;
    std::int64_t places = look_up(tile);
    fetch(keys, write_keys, k, params.K_ptr, tile, places);
    load_queries(params, shared, place);
    shared.barrier_O.wait((work_index + 1) % 2);  // results have left the place of the values
    for (; tile > 0; --tile) {
      const std::int64_t next = look_up(tile - 1);
      fetch(keys, write_keys, k, params.K_ptr, tile - 1, next);
      fetch(values, write_values, v, params.V_ptr, tile, places);
      places = next;
    }
    scheduler.prefetch_next_work(scheduler_params, work);
    fetch(values, write_values, v, params.V_ptr, 0, places);
    scheduler.broadcast_next_work(work);
  }

 private:
  template <typename Shared, typename Place>
  CUTLASS_DEVICE void load_queries(const typename Base::Params& params, Shared& shared,
                                   const Place& place) {
    cutlass::arch::NamedBarrier::sync(Base::NUM_MMA_THREADS + Traits::NUM_PRODUCER_THREADS,
                                      static_cast<int>(flashinfer::NamedBarriers::kQueryEmpty));
    if (threadIdx.x >= cutlass::NumThreadsPerWarp || !cute::elect_one_sync()) return;
    const auto all = params.tma_load_Q.get_tma_tensor(params.layout_Q.shape());
    const auto from = flashinfer::get_local_tile_tensor(
        all, cute::select<0, 2>(typename Traits::TileShape_QKD{}), cute::get<1>(place),
        cute::get<3>(place), cute::get<5>(place))(cute::_, cute::_, cute::get<0>(place));
    const auto to =
        cute::make_tensor(cute::make_smem_ptr(shared.smem_q.data()), typename Base::SmemLayoutQ{});
    const auto one = [](const auto& tensor) {
      return cute::group_modes<0, 2>(cute::make_tensor(
          tensor.data(), cute::make_layout(tensor.layout(), cute::Layout<cute::_1>{})));
    };
    auto [source, target] = cute::tma_partition(params.tma_load_Q, cute::_0{},
                                                cute::Layout<cute::_1>{}, one(to), one(from));
    shared.barrier_Q.arrive_and_expect_tx(Base::TmaTransactionBytesQ);
    cute::copy(params.tma_load_Q.with(
                   reinterpret_cast<cutlass::arch::ClusterTransactionBarrier::ValueType&>(
                       shared.barrier_Q),
                   /*multicast*/ 0),
               source, target);
  }
};

inline int blocks_of_gpu() {
  int device = 0;
  int blocks = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device);
  return blocks;
}

// Of q and out, and of k and v where those are rows: the head's own columns.
inline auto head_layout(const FlashArgs& args, const Rows& rows, std::int64_t heads) {
  const std::int64_t head_dim = args.attention.head_dim;
  return flashinfer::get_gmem_layout(static_cast<int>(rows.rows), static_cast<int>(heads),
                                     static_cast<int>(head_dim), rows.stride, head_dim);
}

template <typename Traits, typename Mainloop, bool kCausal, typename Params>
int launch_narrow(const FlashArgs& args, const Params& params, typename Mainloop::Params mainloop,
                  cudaStream_t stream) {
  using Epilogue = NarrowEpilogue<Traits>;
  using Scheduler = flashinfer::BatchPrefillPersistentTileScheduler<std::int32_t>;
  const typename Epilogue::Arguments results = {
      params.o_ptr, head_layout(args, args.attention.out, args.attention.heads), nullptr,
      flashinfer::get_lse_gmem_layout(static_cast<int>(params.nnz_qo), params.num_qo_heads)};
  typename Epilogue::Params epilogue = Epilogue::to_underlying_arguments(results);
  const Scheduler::Arguments works = {
      params.work_indptr, params.head_indices,  params.qo_tile_indices,
      params.qo_indptr,   params.kv_indptr,     params.qo_lens,
      params.kv_lens,     params.batch_indices, cutlass::FastDivmod(params.group_size),
      params.num_qo_heads};
  Scheduler::Params scheduler = Scheduler::to_underlying_arguments(works);

  const auto kernel = reinterpret_cast<const void*>(
      flashinfer::PrefillWithKVCacheKernel<Mainloop, Epilogue, Traits, /*window*/ false, kCausal,
                                           Scheduler>);
  constexpr int kShared = sizeof(typename Traits::SharedStorage);
  const cudaError_t allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (allowed != cudaSuccess) return allowed;
  void* all[] = {&mainloop, &epilogue, &scheduler};
  return cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks_of_gpu())),
                          dim3(Traits::NUM_THREADS), all, kShared, stream);
}

// Heads of up to kTiles.head_dim, in whole pieces of 16 bytes.
template <const FlashForm& kTiles>
int launch_narrow_rows(const FlashArgs& args, cudaStream_t stream) {
  using Traits = FlashTraits<kTiles>;
  using Params =
      flashinfer::BatchPrefillRaggedParams<FlashElement, FlashElement, FlashElement, std::int32_t>;
  using Mainloop =
      flashinfer::CollectiveMainloop<typename Params::AdditionalParams, Traits, /*causal*/ false>;
  const AttentionKernelArgs& from = args.attention;
  const Params params = flash_params<Params>(args);
  return launch_narrow<Traits, Mainloop, false>(
      args, params,
      Mainloop::to_underlying_arguments(
          {params.q_ptr, head_layout(args, from.q, from.heads),
           static_cast<FlashElement*>(from.k.data), head_layout(args, from.k, from.kv_heads),
           static_cast<FlashElement*>(from.v.data), head_layout(args, from.v, from.kv_heads),
           params.window_left, params.additional_params}),
      stream);
}

template <const FlashForm& kTiles>
int launch_narrow_paged(const FlashArgs& args, cudaStream_t stream) {
  using Traits = FlashTraits<kTiles>;
  using Mainloop = NarrowPagedMainloop<typename FlashPagedParams::AdditionalParams, Traits>;
  const FlashPagedParams params = flash_paged_params(args);
  const auto in_blocks =
      flashinfer::get_gmem_layout(0, params.num_kv_heads, static_cast<int>(args.attention.head_dim),
                                  params.k_stride_n, params.k_stride_h);
  return launch_narrow<Traits, Mainloop, true>(
      args, params,
      Mainloop::to_underlying_arguments(
          {params.q_ptr, head_layout(args, args.attention.q, args.attention.heads), params.k_ptr,
           in_blocks, params.v_ptr, in_blocks, params.kv_indices, params.window_left,
           params.k_page_stride, params.v_page_stride, static_cast<std::uint32_t>(params.page_size),
           params.additional_params}),
      stream);
}

}  // namespace saccade::cuda
