// Ops that move whole rows: embed, mix_rows, copy_rows.
#include <algorithm>

#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuStream::embed(const EmbedArgs& args) {
  check_shapes(args);
  const FourBitWeight* const codes = four_bits(args.packed);
  const auto* const panels =
      codes == nullptr ? static_cast<const PanelWeight*>(args.packed) : nullptr;
  each_row(args.out.rows(), args.out.cols(), [&](std::int64_t row) {
    const std::int64_t given = args.ids.data()[row];
    const std::int64_t id = given >= 0 ? given : *args.last_tokens.row<std::int32_t>(-1 - given);
    float* out = args.out.row<float>(row);
    if (args.packed != nullptr) {
      if (codes != nullptr)
        codes->unpack_row(id, out);
      else
        panels->unpack_row(id, out);
      if (args.scale != 1) kernels_.mix_row(out, args.scale, false, out, args.out.cols());
      return;
    }
    kernels_.convert_row(args.table.data() + static_cast<std::size_t>(id) * args.table.row_bytes(),
                         args.table.dtype(), out, DType::kF32, args.scale, args.out.cols());
  });
}

void CpuStream::mix_rows(const MixRowsArgs& args) {
  check_shapes(args);
  const Index cols = args.out.cols();
  const auto mix = [&](std::int64_t from, float weight, bool accumulate, float* out) {
    if (args.x.dtype() == DType::kF32)
      return kernels_.mix_row(args.x.row<float>(from), weight, accumulate, out, cols);
    constexpr Index kPiece = 256;
    float piece[kPiece];
    const std::size_t width = size_of(args.x.dtype());
    const std::byte* x = args.x.data() + static_cast<std::size_t>(from) * args.x.row_bytes();
    for (Index col = 0; col < cols; col += kPiece) {
      const Index count = std::min(kPiece, cols - col);
      kernels_.convert_row(x + static_cast<std::size_t>(col) * width, args.x.dtype(), piece,
                           DType::kF32, 1.0f, count);
      kernels_.mix_row(piece, weight, accumulate, out + col, count);
    }
  };
  each_row(args.out.rows(), cols * args.taps, [&](std::int64_t row) {
    for (std::int64_t tap = 0; tap < args.taps; ++tap) {
      const std::int64_t pick = row * args.taps + tap;
      mix(args.rows.data()[pick], args.weights.empty() ? 1.0f : args.weights.data()[pick], tap > 0,
          args.out.row<float>(row));
    }
  });
}

void CpuStream::copy_rows(const CopyRowsArgs& args) {
  check_shapes(args);
  each_row(args.count(), args.to.cols(), [&](std::int64_t i) {
    const std::int64_t from = args.from_rows.empty() ? i : args.from_rows.data()[i];
    const std::int64_t to = args.to_rows.empty() ? i : args.to_rows.data()[i];
    if (to < 0) return;
    const std::byte* x = args.from.data() + static_cast<std::size_t>(from) * args.from.row_bytes();
    std::byte* out = args.to.data() + static_cast<std::size_t>(to) * args.to.row_bytes();
    if (!args.add) {
      kernels_.convert_row(x, args.from.dtype(), out, args.to.dtype(), 1.0f, args.to.cols());
      return;
    }
    kernels_.accumulate_row(x, args.from.dtype(), args.to.row<float>(to), args.to.cols());
  });
}

}  // namespace saccade::cpu
