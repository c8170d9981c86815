// FlashInfer's parameters from our arguments.
#pragma once

#include <flashinfer/attention/hopper/default_params.cuh>
#include <flashinfer/attention/hopper/prefill_sm90.cuh>
#include <flashinfer/attention/hopper/variants.cuh>
#include <flashinfer/cutlass_utils.cuh>

#include "ops/cuda/flashinfer/flashinfer_kernels.h"

namespace saccade::cuda {

using FlashElement = cutlass::bfloat16_t;
using FlashVariant = flashinfer::DefaultAttention</*soft cap*/ false>;
constexpr int kFlashStages = 2;  // tiles of keys under way

template <const FlashForm& kForm>
using FlashTraits =
    flashinfer::AttentionKernelTraits</*keys by TMA*/ !kForm.paged, kForm.head_dim, kForm.head_dim,
                                      kForm.query_rows, kForm.key_rows, kFlashStages, FlashElement,
                                      FlashElement, FlashElement, std::int32_t, FlashVariant>;

inline std::int32_t* theirs(const std::int32_t* list) { return const_cast<std::int32_t*>(list); }

template <typename Params>
Params flash_params(const FlashArgs& args) {
  const AttentionKernelArgs& from = args.attention;
  const FlashLists& lists = args.lists;
  Params to = {};
  to.q_ptr = static_cast<FlashElement*>(from.q.data);
  to.o_ptr = static_cast<FlashElement*>(from.out.data);
  to.qo_tile_indices = theirs(lists.tiles);
  to.qo_indptr = theirs(lists.query_begins);
  to.kv_indptr = theirs(lists.key_begins);
  to.qo_lens = theirs(lists.query_counts);
  to.kv_lens = theirs(lists.key_counts);
  to.head_indices = theirs(lists.heads);
  to.work_indptr = theirs(lists.work_begins);
  to.batch_indices = theirs(lists.sequences);
  to.additional_params.sm_scale = from.scale;
  to.q_stride_n = from.q.stride;
  to.o_stride_n = from.out.stride;
  to.q_stride_h = from.head_dim;
  to.o_stride_h = from.head_dim;
  to.nnz_qo = from.q.rows;
  to.num_qo_heads = static_cast<int>(from.heads);
  to.num_kv_heads = static_cast<int>(from.kv_heads);
  to.group_size = static_cast<int>(from.heads / from.kv_heads);
  to.window_left = -1;
  return to;
}

using FlashPagedParams =
    flashinfer::BatchPrefillPagedParams<FlashElement, FlashElement, FlashElement, std::int32_t>;

// A block is K of all heads, then V of all heads.
inline FlashPagedParams flash_paged_params(const FlashArgs& args) {
  const KvPages& pages = args.attention.pages;
  FlashPagedParams params = flash_params<FlashPagedParams>(args);
  const std::int64_t head = pages.block_size * pages.head_dim;
  params.k_ptr = reinterpret_cast<FlashElement*>(pages.base);
  params.v_ptr = params.k_ptr + pages.kv_heads * head;
  params.kv_indices = theirs(args.attention.blocks);
  params.k_stride_n = params.v_stride_n = pages.head_dim;
  params.k_stride_h = params.v_stride_h = head;
  params.k_page_stride = params.v_page_stride =
      pages.block_stride / static_cast<std::int64_t>(sizeof(FlashElement));
  params.page_size = static_cast<int>(pages.block_size);
  params.causal = true;
  return params;
}

template <const FlashForm& kForm>
int launch_paged(const FlashArgs& args, cudaStream_t stream) {
  FlashPagedParams params = flash_paged_params(args);
  return flashinfer::BatchPrefillWithPagedKVCacheKernelTraitsDispatched<
      FlashTraits<kForm>, /*window*/ false, /*causal*/ true, /*one schedule of all heads*/ false>(
      params, stream);
}

template <const FlashForm& kForm>
int launch_rows(const FlashArgs& args, cudaStream_t stream) {
  using Params =
      flashinfer::BatchPrefillRaggedParams<FlashElement, FlashElement, FlashElement, std::int32_t>;
  const AttentionKernelArgs& from = args.attention;
  Params params = flash_params<Params>(args);
  params.k_ptr = static_cast<FlashElement*>(from.k.data);
  params.v_ptr = static_cast<FlashElement*>(from.v.data);
  params.k_stride_n = from.k.stride;
  params.v_stride_n = from.v.stride;
  params.k_stride_h = params.v_stride_h = from.head_dim;
  params.nnz_kv = from.k.rows;
  return flashinfer::BatchPrefillWithRaggedKVCacheKernelTraitsDispatched<
      FlashTraits<kForm>, /*window*/ false, /*causal*/ false, /*one schedule of all heads*/ false>(
      params, stream);
}

}  // namespace saccade::cuda
