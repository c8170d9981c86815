// Columns of activations in the order in which a weight keeps its inputs (act-order).
#include "ops/cuda/codes/code_kernels.h"
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

// A block a tile of visits; without tiles, a row.
template <typename T>
__global__ void __launch_bounds__(kRowBlock) order_cols_kernel(OrderColsKernelArgs args) {
  std::int64_t first = blockIdx.x;
  std::int64_t end = first + 1;
  const std::int32_t* order = args.order;
  if (args.groups.tiles != nullptr) {
    const GroupTile tile = args.groups.tiles[blockIdx.x];
    first = tile.first;
    end = first + tile.count;
    order = args.groups.weights[tile.group].order;
  }
  if (order == nullptr) return;  // of a group that is none of this product's
  const auto cols = static_cast<int>(args.out.cols);
  for (std::int64_t row = first; row < end; ++row) {
    const std::int64_t from = args.groups.x_rows != nullptr ? args.groups.x_rows[row] : row;
    const T* const x = static_cast<const T*>(args.x.data) + from * args.x.stride;
    T* const out = static_cast<T*>(args.out.data) + row * args.out.stride;
#pragma unroll 1
    for (int col = static_cast<int>(threadIdx.x); col < cols; col += kRowBlock)
      out[col] = x[order[col]];
  }
}

}  // namespace

void launch_order_cols(const OrderColsKernelArgs& args, cudaStream_t stream) {
  if (args.out.rows == 0 || args.out.cols == 0) return;
  const bool tiles = args.groups.tiles != nullptr;
  const dim3 grid(static_cast<unsigned>(tiles ? args.groups.tile_count : args.out.rows));
  if (args.x.type == DType::kBf16)
    SACCADE_LAUNCH(order_cols_kernel<Bf16>, grid, dim3(kRowBlock), 0, stream, args);
  else
    SACCADE_LAUNCH(order_cols_kernel<float>, grid, dim3(kRowBlock), 0, stream, args);
}

}  // namespace saccade::cuda
