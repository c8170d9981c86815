// Packing: from a checkpoint's [out, in] rows to the panels of cpu_backend.h.
#include <cstring>

#include "ops/cpu/cpu_backend.h"
#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

// Columns converted at a time: the block of all lanes stays in the first-level cache.
constexpr std::int64_t kBlock = 256;

// Element `lane` of each step of depth becomes elements lane, lane + lanes, ... of the panel.
template <typename T>
void scatter(const T* row, std::int64_t steps, std::int64_t lanes, T* panel) {
  for (std::int64_t step = 0; step < steps; ++step) panel[step * lanes] = row[step];
}

}  // namespace

PanelWeight::PanelWeight(std::int64_t out, std::int64_t in, DType type, std::int64_t lanes,
                         std::int64_t depth_unit, DType operand)
    : PackedWeight(out, in),
      type_(type),
      operand_(operand),
      lanes_(lanes),
      panels_((out + lanes - 1) / lanes),
      panel_bytes_((in + depth_unit - 1) / depth_unit * depth_unit * lanes *
                   static_cast<std::int64_t>(size_of(type))) {
  Result<Buffer> storage = allocate_host(static_cast<std::size_t>(panels_ * panel_bytes_));
  CHECK(storage.has_value(), "weight {}x{}: {}", out, in, storage.error().message);
  storage_ = std::move(*storage);
}

void PanelWeight::pack_panel(std::int64_t index, std::span<const View> weights,
                             const Kernels& kernels) {
  // Pairs of bf16 travel as one 32-bit word, so both types scatter words; memory is zero already.
  alignas(64) std::uint32_t words[kBlock];
  const std::int64_t per_word = type_ == DType::kBf16 ? 2 : 1;
  auto* const out_words = reinterpret_cast<std::uint32_t*>(panel(index));
  for (std::int64_t lane = 0; lane < lanes_; ++lane) {
    std::int64_t row = index * lanes_ + lane;
    if (row >= out()) break;
    auto weight = weights.begin();
    for (; row >= weight->rows(); ++weight) row -= weight->rows();
    const std::byte* source = weight->data() + static_cast<std::size_t>(row) * weight->row_bytes();
    for (std::int64_t col = 0; col < in(); col += kBlock) {
      const std::int64_t cols = std::min(kBlock, in() - col);
      if (cols % per_word != 0) words[cols / per_word] = 0;
      kernels.convert_row(source + static_cast<std::size_t>(col) * size_of(weight->dtype()),
                          weight->dtype(), words, type_, 1.0f, cols);
      scatter(words, (cols + per_word - 1) / per_word, lanes_,
              out_words + col / per_word * lanes_ + lane);
    }
  }
}

void PanelWeight::unpack_row(std::int64_t out, float* values) const {
  const auto* words = reinterpret_cast<const std::uint32_t*>(panel(out / lanes_)) + out % lanes_;
  if (type_ == DType::kF32) {
    for (std::int64_t col = 0; col < in(); ++col)
      std::memcpy(values + col, words + col * lanes_, sizeof(float));
    return;
  }
  for (std::int64_t col = 0; col < in(); ++col) {
    const std::uint32_t word = words[col / 2 * lanes_];
    const std::uint32_t bits = col % 2 == 0 ? word << 16 : word & 0xffff0000U;
    std::memcpy(values + col, &bits, sizeof(float));
  }
}

std::unique_ptr<PackedWeight> CpuBackend::pack(std::span<const View> weights, DType compute) {
  check_shapes(weights, compute);
  std::int64_t out = 0;
  for (const View& weight : weights) out += weight.rows();
  const bool tiled = tiles_ != nullptr && compute == DType::kBf16;
  const std::int64_t depth_unit = tiled ? 32 : compute == DType::kBf16 ? 2 : 1;
  auto packed = std::make_unique<PanelWeight>(out, weights.front().cols(), compute, kernels_.lanes,
                                              depth_unit, tiled ? DType::kBf16 : DType::kF32);
  pool_.parallel_each(packed->panels(), [&](std::int64_t panel, int) {
    packed->pack_panel(panel, weights, kernels_);
  });
  return packed;
}

}  // namespace saccade::cpu
