// Kernels of layers of several MLPs, beside those of kernels.h: rows are sent to the experts that
// their router likes best, each expert's rows are multiplied together, and a row's terms are added
// up in the order in which the router ranked them.
//
// A visit is one row at one expert: row r's are r * per_row and so on in the order of the ranks;
// sorted by expert they have places of their own.
#pragma once

#include "ops/cuda/kernels.h"

namespace saccade::cuda {

// A tile of a grouped product: visits [first, first + count) are those of `group`; of a tile that
// is not needed the count is 0.
struct GroupTile {
  std::int32_t group;
  std::int32_t first;
  std::int32_t count;
};

// A weight of a group, where groups have weights of one shape and stride.
struct GroupWeight {
  const void* data;  // null: its visits are not of this product
  // Of codes, as CodedRows has them.
  const float* scales;
  const std::uint8_t* zeros;
  const std::int32_t* order;
};

// Rows of a product that go by different weights.
struct GemmGroups {
  const GroupTile* tiles = nullptr;  // [tile_count], of at most tile_rows visits each
  std::int64_t tile_count = 0;
  int tile_rows = 0;                     // kFewTileRows or kManyTileRows
  const std::int32_t* x_rows = nullptr;  // [visits]: each one's row of x; null: its own place
  const GroupWeight* weights = nullptr;  // [groups]
};
constexpr int kFewTileRows = 16;
constexpr int kManyTileRows = 64;
// As launch_gemm(), of args.y.rows visits; args.weight says what each group's weight is like.
void launch_grouped_gemm(const GemmKernelArgs& args, const GemmGroups& groups, cudaStream_t stream);
void launch_grouped_gemm_f32(const GemmKernelArgs& args, const GemmGroups& groups,
                             cudaStream_t stream);  // its latter part

// The `per_row` largest logits of each row, of equals the lowest first (a NaN is less than all),
// and their shares of the softmax over all logits, or with `normalise` over those chosen.
struct RouteKernelArgs {
  Rows logits;  // [rows, experts] f32
  std::int64_t per_row = 1;
  bool normalise = true;
  std::int32_t* experts = nullptr;  // [rows, per_row]
  float* weights = nullptr;         // [rows, per_row]
};
void launch_route(const RouteKernelArgs& args, cudaStream_t stream);

// Visits by expert. The order within one is any.
struct SortVisitsKernelArgs {
  const std::int32_t* experts = nullptr;  // [visits]
  std::int64_t visits = 0;
  std::int64_t per_row = 1;
  std::int64_t count = 0;          // of experts, kMaxExperts at most
  std::int32_t* rows = nullptr;    // [visits]: the row at each place
  std::int32_t* places = nullptr;  // [visits]: the place of each visit
  GroupTile* tiles = nullptr;      // [tile_count]
  std::int64_t tile_count = 0;     // max_tiles()
  int tile_rows = 0;
};
constexpr std::int64_t kMaxExperts = 4096;
void launch_sort_visits(const SortVisitsKernelArgs& args, cudaStream_t stream);
// However the visits fall.
inline std::int64_t max_tiles(std::int64_t visits, std::int64_t experts, int tile_rows) {
  return visits / tile_rows + (visits < experts ? visits : experts);
}

// y row r = (with `add`, itself +) the sum over its visits of weight * part.
struct CombineKernelArgs {
  Rows part;                             // [visits, cols], by place
  const std::int32_t* places = nullptr;  // [rows, per_row]
  const float* weights = nullptr;        // [rows, per_row]
  std::int64_t per_row = 1;
  bool add = false;
  Rows y;  // [rows, cols], of part's type
};
void launch_combine(const CombineKernelArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
