// A step's keys and values into the pool.
#include <cstring>

#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuStream::kv_write(const KvWriteArgs& args) {
  check_shapes(args);
  const KvLayer& layer = args.layer;
  const auto dims = static_cast<std::size_t>(layer.head_dim);
  // Rounding to bytes is the definition itself, once a row: little beside what made the row.
  const auto write = [&](const float* row, std::byte* to, std::byte* scale_to) {
    if (!layer.coded()) {
      kernels_.convert_row(row, DType::kF32, to, layer.dtype(), 1.0f, layer.head_dim);
      return;
    }
    const float scale =
        round_kv_row({row, dims}, layer.dtype(), {reinterpret_cast<std::uint8_t*>(to), dims});
    std::memcpy(scale_to, &scale, sizeof(scale));
  };
  for (const SequenceSpan& span : args.plan->spans()) {
    each_row(span.row_count, 2 * args.k.cols(), [&](std::int64_t row) {
      const std::int64_t token = span.context + row;
      const std::int64_t slot = token % layer.block_size;
      const auto block =
          static_cast<std::size_t>(span.blocks[static_cast<std::size_t>(token / layer.block_size)]);
      std::byte* const base = layer.blocks.data() + block * layer.blocks.row_bytes();
      const float* k = args.k.row<float>(span.row_begin + row);
      const float* v = args.v.row<float>(span.row_begin + row);
      for (std::int64_t head = 0; head < layer.kv_heads; ++head) {
        const KvHeadRows rows(layer, head);
        write(k + head * layer.head_dim, base + rows.key(slot), base + rows.key_scale(slot));
        write(v + head * layer.head_dim, base + rows.value(slot), base + rows.value_scale(slot));
      }
    });
  }
}

}  // namespace saccade::cpu
