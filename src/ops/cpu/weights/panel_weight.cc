// Packing: from a checkpoint's [out, in] rows to the panels of cpu_device.h.
#include <cstring>
#include <optional>

#include "ops/cpu/cpu_device.h"
#include "ops/cpu/weights/packed_pieces.h"
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

PanelWeight::PanelWeight(const Shape& shape)
    : PackedWeight(shape.out, shape.in),
      type_(shape.type),
      operand_(shape.operand),
      lanes_(shape.lanes),
      depth_unit_(shape.depth_unit),
      panels_((shape.out + lanes_ - 1) / lanes_),
      panel_bytes_((shape.in + depth_unit_ - 1) / depth_unit_ * depth_unit_ * lanes_ *
                   static_cast<std::int64_t>(size_of(type_))) {}

PanelWeight::PanelWeight(std::int64_t out, std::int64_t in, DType type, std::int64_t lanes,
                         std::int64_t depth_unit, DType operand)
    : PanelWeight(Shape{out, in, type, lanes, depth_unit, operand}) {
  Result<Buffer> storage = allocate_host(storage_bytes());
  CHECK(storage.has_value(), "weight {}x{}: {}", out, in, storage.error().message);
  storage_ = std::move(*storage);
  if (type != DType::kI8) return;
  scales_.resize(static_cast<std::size_t>(panels_ * lanes));
  starts_.resize(scales_.size());
}

PackedForm PanelWeight::form() const {
  PackedForm form{out(), in(), {}, {}};
  form.layout = {kPanelForm,
                 static_cast<std::int64_t>(type_),
                 static_cast<std::int64_t>(operand_),
                 lanes_,
                 depth_unit_,
                 0};
  form.pieces = {std::span(storage_.data(), storage_bytes()), std::as_bytes(std::span(scales_)),
                 std::as_bytes(std::span(starts_))};
  return form;
}

std::unique_ptr<PackedWeight> PanelWeight::restore(const PackedForm& form, std::int64_t lanes,
                                                   std::shared_ptr<const void> owner) {
  const auto& [kind, type, operand, its_lanes, depth_unit, none] = form.layout;
  if (kind != kPanelForm || its_lanes != lanes || depth_unit < 1 || form.pieces.size() != 3)
    return nullptr;
  std::unique_ptr<PanelWeight> weight(
      new PanelWeight(Shape{form.out, form.in, static_cast<DType>(type), lanes, depth_unit,
                            static_cast<DType>(operand)}));
  const std::size_t lists = weight->type_ == DType::kI8
                                ? static_cast<std::size_t>(weight->panels_ * lanes)
                                : std::size_t{0};
  if (form.pieces[0].size() != weight->storage_bytes() ||
      form.pieces[1].size() != lists * sizeof(float) ||
      form.pieces[2].size() != lists * sizeof(std::int32_t))
    return nullptr;
  weight->storage_ = borrow(form.pieces[0], std::move(owner));
  weight->scales_ = list_of<float>(form.pieces[1]);
  weight->starts_ = list_of<std::int32_t>(form.pieces[2]);
  return weight;
}

void PanelWeight::store(std::int64_t out, std::int64_t col, const std::byte* numbers, DType type,
                        std::int64_t cols, const Kernels& kernels) {
  // Pairs of bf16 travel as one 32-bit word, so both types scatter words; memory is zero already.
  alignas(64) std::uint32_t words[kBlock];
  alignas(64) std::byte aligned[kBlock * sizeof(float)];
  const std::int64_t per_word = type_ == DType::kBf16 ? 2 : 1;
  auto* const panel_words = reinterpret_cast<std::uint32_t*>(panel(out / lanes_)) + out % lanes_;
  for (std::int64_t begin = 0; begin < cols; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, cols - begin);
    const std::byte* source = numbers + static_cast<std::size_t>(begin) * size_of(type);
    if (reinterpret_cast<std::uintptr_t>(source) % size_of(type) != 0) {
      std::memcpy(aligned, source, static_cast<std::size_t>(count) * size_of(type));
      source = aligned;
    }
    if (count % per_word != 0) words[count / per_word] = 0;
    kernels.convert_row(source, type, words, type_, 1.0f, count);
    scatter(words, (count + per_word - 1) / per_word, lanes_,
            panel_words + (col + begin) / per_word * lanes_);
  }
}

void PanelWeight::store_codes(std::int64_t out, std::span<const std::uint32_t> fours, float scale,
                              std::int32_t offset) {
  std::int32_t sum = 0;
  for (const std::uint32_t four : fours) {
    for (int shift = 0; shift < 32; shift += 8) sum += static_cast<std::int8_t>(four >> shift);
  }
  scales_[static_cast<std::size_t>(out)] = scale;
  starts_[static_cast<std::size_t>(out)] = -offset * sum;
  scatter(fours.data(), static_cast<std::int64_t>(fours.size()), lanes_,
          reinterpret_cast<std::uint32_t*>(panel(out / lanes_)) + out % lanes_);
}

void PanelWeight::unpack_row(std::int64_t out, float* values) const {
  const auto* words = reinterpret_cast<const std::uint32_t*>(panel(out / lanes_)) + out % lanes_;
  if (type_ == DType::kI8) {
    const float scale = scales_[static_cast<std::size_t>(out)];
    for (std::int64_t col = 0; col < in(); ++col) {
      const std::uint32_t word = words[col / 4 * lanes_];
      values[col] = static_cast<float>(static_cast<std::int8_t>(word >> (col % 4 * 8))) * scale;
    }
    return;
  }
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

namespace {

// Rows of a packed matrix from one stored part: numbers that lie in rows are converted where they
// are, everything else is read a tile at a time.
class PartPacker {
 public:
  PartPacker(const StoredMatrix& part, std::int64_t first_row) : part_(part), first_(first_row) {
    if (!part.has_float_rows()) reader_.emplace(part);
  }

  // Those of the packed rows [begin, end) that are this part's.
  void pack(std::int64_t begin, std::int64_t end, const Kernels& kernels, PanelWeight& into) const {
    begin = std::max(begin, first_) - first_;
    end = std::min(end - first_, part_.out());
    if (begin >= end) return;
    if (reader_) return pack_tiles(begin, end, kernels, into);
    for (std::int64_t row = begin; row < end; ++row)
      into.store(first_ + row, 0, part_.float_row(row), part_.codes.dtype, part_.in(), kernels);
  }

 private:
  void pack_tiles(std::int64_t begin, std::int64_t end, const Kernels& kernels,
                  PanelWeight& into) const {
    constexpr std::int64_t kIn = StoredMatrixReader::kTileIn;
    alignas(64) float tile[StoredMatrixReader::kTileOut * kIn];
    for (std::int64_t col = 0; col < part_.in(); col += kIn) {
      const std::int64_t cols = std::min(kIn, part_.in() - col);
      reader_->read(begin, end, col, col + cols, tile, kIn);
      for (std::int64_t row = begin; row < end; ++row)
        into.store(first_ + row, col,
                   reinterpret_cast<const std::byte*>(tile + (row - begin) * kIn), DType::kF32,
                   cols, kernels);
    }
  }

  StoredMatrix part_;
  std::int64_t first_;
  std::optional<StoredMatrixReader> reader_;
};

}  // namespace

std::unique_ptr<PackedWeight> CpuDevice::pack(std::span<const StoredMatrix> parts, DType compute) {
  check_shapes(parts, compute);
  if (compute == DType::kI8) return pack_int8(parts);
  const bool tiled = tiles_ != nullptr && compute == DType::kBf16;
  const CodeOrder order = tiled ? tiles_->code_order : CodeOrder::kInputs;
  if (auto codes = FourBitWeight::pack(parts, kernels_.lanes, order, pool_)) return codes;
  std::vector<PartPacker> packers;
  std::int64_t out = 0;
  for (const StoredMatrix& part : parts) {
    packers.emplace_back(part, out);
    out += part.out();
  }
  const std::int64_t depth_unit = tiled ? 32 : compute == DType::kBf16 ? 2 : 1;
  auto packed = std::make_unique<PanelWeight>(out, parts.front().in(), compute, kernels_.lanes,
                                              depth_unit, tiled ? DType::kBf16 : DType::kF32);
  constexpr std::int64_t kRows = StoredMatrixReader::kTileOut;  // whole panels
  pool_.parallel_each((out + kRows - 1) / kRows, [&](std::int64_t unit, int) {
    for (const PartPacker& packer : packers)
      packer.pack(unit * kRows, (unit + 1) * kRows, kernels_, *packed);
  });
  return packed;
}

std::string CpuDevice::packing() const { return fmt::format("cpu {}", name_of(isa_)); }

PackedForm CpuDevice::form_of(const PackedWeight& weight) const {
  if (const FourBitWeight* codes = four_bits(&weight)) return codes->form();
  return static_cast<const PanelWeight&>(weight).form();
}

std::unique_ptr<PackedWeight> CpuDevice::restore(const PackedForm& form,
                                                 std::shared_ptr<const void> owner) const {
  if (form.out < 0 || form.in < 0) return nullptr;
  if (form.layout.front() != kPanelForm)
    return FourBitWeight::restore(form, kernels_.lanes, std::move(owner));
  return PanelWeight::restore(form, kernels_.lanes, std::move(owner));
}

}  // namespace saccade::cpu
