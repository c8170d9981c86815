// Ops that move whole rows: embed, mix_rows, scatter_rows.
#include "ops/cpu/cpu_backend.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuBackend::embed(const EmbedArgs& args) {
  check_shapes(args);
  const auto* packed = static_cast<const PanelWeight*>(args.packed);
  each_row(args.out.rows(), args.out.cols(), [&](std::int64_t row) {
    const std::int64_t id = args.ids[static_cast<std::size_t>(row)];
    float* out = args.out.row<float>(row);
    if (packed != nullptr) {
      packed->unpack_row(id, out);
      if (args.scale != 1) kernels_.mix_row(out, args.scale, false, out, args.out.cols());
      return;
    }
    kernels_.convert_row(args.table.data() + static_cast<std::size_t>(id) * args.table.row_bytes(),
                         args.table.dtype(), out, DType::kF32, args.scale, args.out.cols());
  });
}

void CpuBackend::mix_rows(const MixRowsArgs& args) {
  check_shapes(args);
  each_row(args.out.rows(), args.out.cols() * args.taps, [&](std::int64_t row) {
    for (std::int64_t tap = 0; tap < args.taps; ++tap) {
      const auto pick = static_cast<std::size_t>(row * args.taps + tap);
      kernels_.mix_row(args.x.row<float>(args.rows[pick]),
                       args.weights.empty() ? 1.0f : args.weights[pick], tap > 0,
                       args.out.row<float>(row), args.out.cols());
    }
  });
}

void CpuBackend::scatter_rows(const ScatterRowsArgs& args) {
  check_shapes(args);
  each_row(args.x.rows(), args.x.cols(), [&](std::int64_t row) {
    const std::int64_t to = args.rows[static_cast<std::size_t>(row)];
    kernels_.convert_row(args.x.data() + static_cast<std::size_t>(row) * args.x.row_bytes(),
                         args.x.dtype(),
                         args.out.data() + static_cast<std::size_t>(to) * args.out.row_bytes(),
                         args.out.dtype(), 1.0f, args.x.cols());
  });
}

}  // namespace saccade::cpu
