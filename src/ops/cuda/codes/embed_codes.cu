// Rows of an embedding table that is kept as codes: that of a head that was rounded with it.
#include "ops/cuda/codes/code_values.h"
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kRowBlock) embed_codes_kernel(EmbedCodesKernelArgs args) {
  for (PackWalk walk(args.out.rows, args.out.cols, 1); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    std::int64_t id = args.ids[row];
    if (id < 0) id = args.last_token[-1 - id];
    const CodedRows& table = args.table;
    const std::int64_t col = walk.col();
    float value = coded_number(table, table.codes, table.scales, table.zeros, id, col);
    if (table.rounded) {
      Bf16 rounded;
      narrow(value, rounded);
      value = widen(rounded);
    }
    const float scaled[1] = {value * args.scale};
    store_to<1, T>(scaled, args.out, row, table.order != nullptr ? table.order[col] : col);
  }
}

}  // namespace

void launch_embed_codes(const EmbedCodesKernelArgs& args, cudaStream_t stream) {
  if (args.out.rows == 0 || args.out.cols == 0) return;
  const dim3 grid = pack_grid(args.out.rows, args.out.cols, 1);
  if (args.out.type == DType::kBf16)
    SACCADE_LAUNCH(embed_codes_kernel<Bf16>, grid, dim3(kRowBlock), 0, stream, args);
  else
    SACCADE_LAUNCH(embed_codes_kernel<float>, grid, dim3(kRowBlock), 0, stream, args);
}

}  // namespace saccade::cuda
