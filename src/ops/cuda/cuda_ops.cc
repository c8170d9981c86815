// The ops that work row by row, from a device's arguments to a kernel's. Lists are sent before they
// are checked: where the host can read the device's memory, what they hold is checked too.
#include "ops/cuda/cuda_device.h"
#include "ops/shapes.h"

namespace saccade::cuda {

void CudaStream::gemm(const GemmArgs& args) {
  check_shapes(args);
  CHECK(args.residual.data() == nullptr || args.residual.dtype() == args.y.dtype(),
        "residual is {}, y is {}", name_of(args.residual.dtype()), name_of(args.y.dtype()));
  if (const CodedRows* const codes = weight_of(*args.weight).codes())
    return gemm_codes(args, *codes);
  const GemmKernelArgs kernel = {.x = rows_of(args.x),
                                 .weight = weight_of(*args.weight).rows(),
                                 .bias = floats(args.bias),
                                 .activation = args.activation,
                                 .residual = rows_of(args.residual),
                                 .y = rows_of(args.y)};
  if (!multiply_by_library(kernel)) launch(launch_gemm, kernel);
}

void CudaStream::norm(const NormArgs& args) {
  check_shapes(args);
  NormKernelArgs kernel;
  kernel.x = rows_of(args.x);
  kernel.add = rows_of(args.add);
  kernel.out = rows_of(args.out);
  if (args.group > 0) {
    kernel.groups = args.x.cols() / args.group;
    kernel.weight_step = args.group;
    kernel.x.cols = kernel.add.cols = kernel.out.cols = args.group;
  }
  kernel.weight = floats(args.weight);
  kernel.bias = floats(args.bias);
  kernel.epsilon = args.epsilon;
  kernel.offset = args.weight_offset;
  kernel.subtract_mean = args.subtract_mean;
  launch(launch_norm, kernel);
}

void CudaStream::rope_table(const RopeTableArgs& args) {
  flush();
  check_shapes(args);
  launch(launch_rope_table, {.positions = args.positions.data(),
                             .inv_freq = rows_of(args.inv_freq),
                             .tables = args.tables.empty() ? nullptr : args.tables.data(),
                             .axis = reinterpret_cast<const std::uint8_t*>(data_of(args.axis)),
                             .scale = args.scale,
                             .cos = rows_of(args.cos),
                             .sin = rows_of(args.sin)});
}

void CudaStream::rope(const RopeArgs& args) {
  check_shapes(args);
  QkvKernelArgs kernel;
  kernel.q = kernel.q_out = rows_of(args.x);
  kernel.head_dim = args.head_dim;
  kernel.cos = rows_of(args.cos);
  kernel.sin = rows_of(args.sin);
  launch(launch_qkv, kernel);
}

void CudaStream::gated(const GatedArgs& args) {
  check_shapes(args);
  GatedKernelArgs kernel;
  kernel.gate = rows_of(args.gate);
  kernel.up = rows_of(args.up);
  kernel.activation = args.activation;
  kernel.out = rows_of(args.out);
  launch(launch_gated, kernel);
}

void CudaStream::embed(const EmbedArgs& args) {
  flush();
  check_shapes(args);
  CHECK(args.last_tokens.empty() || args.last_tokens.stride() == 1, "last_tokens of stride {}",
        args.last_tokens.stride());
  const auto* const last_token = reinterpret_cast<const std::int32_t*>(data_of(args.last_tokens));
  if (const CodedRows* const codes =
          args.packed != nullptr ? weight_of(*args.packed).codes() : nullptr) {
    launch(launch_embed_codes, {.table = *codes,
                                .ids = args.ids.data(),
                                .last_token = last_token,
                                .scale = args.scale,
                                .out = rows_of(args.out)});
    return;
  }
  EmbedKernelArgs kernel;
  kernel.table = args.packed != nullptr ? weight_of(*args.packed).rows() : rows_of(args.table);
  kernel.ids = args.ids.data();
  kernel.last_token = last_token;
  kernel.scale = args.scale;
  kernel.out = rows_of(args.out);
  launch(launch_embed, kernel);
}

void CudaStream::mix_rows(const MixRowsArgs& args) {
  flush();
  check_shapes(args);
  launch(launch_mix_rows, {.x = rows_of(args.x),
                           .rows = args.rows.data(),
                           .weights = args.weights.empty() ? nullptr : args.weights.data(),
                           .taps = args.taps,
                           .out = rows_of(args.out)});
}

void CudaStream::copy_rows(const CopyRowsArgs& args) {
  flush();
  check_shapes(args);
  launch(launch_copy_rows, {.from = rows_of(args.from),
                            .from_rows = args.from_rows.empty() ? nullptr : args.from_rows.data(),
                            .to = rows_of(args.to),
                            .to_rows = args.to_rows.empty() ? nullptr : args.to_rows.data(),
                            .count = args.count(),
                            .add = args.add});
}

void CudaStream::add(View x, View y, float scale) {
  check_add_shapes(x, y);
  launch(launch_add, {rows_of(x), rows_of(y), scale});
}

void CudaStream::softcap(View x, float cap) { launch(launch_softcap, {rows_of(x), cap}); }

void CudaStream::row_stats(View logits, View stats) {
  check_row_stats_shapes(logits, stats);
  static_assert(sizeof(RowStats) == sizeof(RowStatsEntry));
  launch_row_stats({.logits = rows_of(logits),
                    .out = reinterpret_cast<RowStatsEntry*>(stats.data()),
                    .out_stride = stats.stride()},
                   launching());
}

}  // namespace saccade::cuda
