// A step's keys and values into the pool.
#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuStream::kv_write(const KvWriteArgs& args) {
  check_shapes(args);
  const KvLayer& layer = args.layer;
  const std::size_t row_bytes = static_cast<std::size_t>(layer.head_dim) * size_of(layer.dtype());
  for (const SequenceSpan& span : args.plan->spans()) {
    each_row(span.row_count, 2 * args.k.cols(), [&](std::int64_t row) {
      const std::int64_t token = span.context + row;
      const auto block =
          static_cast<std::size_t>(span.blocks[static_cast<std::size_t>(token / layer.block_size)]);
      std::byte* const base = layer.blocks.data() + block * layer.blocks.row_bytes();
      const float* k = args.k.row<float>(span.row_begin + row);
      const float* v = args.v.row<float>(span.row_begin + row);
      for (std::int64_t head = 0; head < layer.kv_heads; ++head) {
        const auto slot =
            static_cast<std::size_t>(head * layer.block_size + token % layer.block_size);
        const auto values = slot + static_cast<std::size_t>(layer.kv_heads * layer.block_size);
        kernels_.convert_row(k + head * layer.head_dim, DType::kF32, base + slot * row_bytes,
                             layer.dtype(), 1.0f, layer.head_dim);
        kernels_.convert_row(v + head * layer.head_dim, DType::kF32, base + values * row_bytes,
                             layer.dtype(), 1.0f, layer.head_dim);
      }
    });
  }
}

}  // namespace saccade::cpu
