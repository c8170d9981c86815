// Packing as bytes: each row is read as numbers, rounded (ops/formats/int8_rows.h) and scattered
// into its panel; one that is stored as bytes is scattered as it is. Beside the result there are
// the numbers of a few rows a thread.
#include <cstring>
#include <optional>
#include <vector>

#include "ops/cpu/cpu_device.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kRows = 32;       // read at a time: whole panels
constexpr std::int64_t kDepthUnit = 64;  // whole AMX tiles and cache lines

// Rows of a stored part as floats: numbers that lie in rows are converted where they are,
// everything else is read a tile at a time.
class PartRows {
 public:
  explicit PartRows(const StoredMatrix& part) : part_(part) {
    if (!part.has_float_rows()) reader_.emplace(part);
  }

  std::int64_t out() const { return part_.out(); }
  const StoredMatrix& stored() const { return part_; }

  // [begin, end), each `in` floats.
  void read(std::int64_t begin, std::int64_t end, const Kernels& kernels, float* into) const {
    const std::int64_t in = part_.in();
    if (reader_) {
      for (std::int64_t col = 0; col < in; col += StoredMatrixReader::kTileIn)
        reader_->read(begin, end, col, std::min(col + StoredMatrixReader::kTileIn, in), into + col,
                      in);
      return;
    }
    const std::size_t width = size_of(part_.codes.dtype);
    for (std::int64_t row = begin; row < end; ++row, into += in) {
      const std::byte* from = part_.float_row(row);
      alignas(64) std::byte aligned[kBlock * sizeof(float)];
      for (std::int64_t col = 0; col < in; col += kBlock) {
        const std::int64_t count = std::min(kBlock, in - col);
        const std::byte* source = from + static_cast<std::size_t>(col) * width;
        if (reinterpret_cast<std::uintptr_t>(source) % width != 0) {
          std::memcpy(aligned, source, static_cast<std::size_t>(count) * width);
          source = aligned;
        }
        kernels.convert_row(source, part_.codes.dtype, into + col, DType::kF32, 1.0f, count);
      }
    }
  }

 private:
  static constexpr std::int64_t kBlock = 256;

  StoredMatrix part_;
  std::optional<StoredMatrixReader> reader_;
};

}  // namespace

std::unique_ptr<PackedWeight> CpuDevice::pack_int8(std::span<const StoredMatrix> parts) {
  struct Unit {
    const PartRows* part;
    std::int64_t begin;  // of the part's rows
    std::int64_t end;
    std::int64_t out;  // where the first goes
  };
  std::vector<PartRows> rows(parts.begin(), parts.end());
  std::vector<Unit> units;
  std::int64_t out = 0;
  for (const PartRows& part : rows) {
    for (std::int64_t begin = 0; begin < part.out(); begin += kRows)
      units.push_back({&part, begin, std::min(begin + kRows, part.out()), out + begin});
    out += part.out();
  }
  const std::int64_t in = parts.front().in();
  auto packed =
      std::make_unique<PanelWeight>(out, in, DType::kI8, kernels_.lanes, kDepthUnit, DType::kI8);
  struct Rounding {
    std::vector<float> values;
    std::vector<std::uint32_t> fours;
  };
  std::vector<Rounding> scratch(static_cast<std::size_t>(pool_.size()));  // [workers]
  pool_.parallel_each(static_cast<std::int64_t>(units.size()), [&](std::int64_t index, int worker) {
    const Unit& unit = units[static_cast<std::size_t>(index)];
    auto& [values, fours] = scratch[static_cast<std::size_t>(worker)];
    values.resize(static_cast<std::size_t>(kRows * in));
    fours.assign(static_cast<std::size_t>((in + 3) / 4), 0);
    auto* const codes = reinterpret_cast<std::int8_t*>(fours.data());
    if (has_byte_rows(unit.part->stored())) {
      for (std::int64_t row = unit.begin; row < unit.end; ++row) {
        const float scale =
            copy_byte_row(unit.part->stored(), row, {codes, static_cast<std::size_t>(in)});
        packed->store_codes(unit.out + row - unit.begin, fours, scale, int8_.offset);
      }
      return;
    }
    unit.part->read(unit.begin, unit.end, kernels_, values.data());
    for (std::int64_t row = 0; row < unit.end - unit.begin; ++row) {
      const float scale = int8_.round_weights(values.data() + row * in, in, codes);
      packed->store_codes(unit.out + row, fours, scale, int8_.offset);
    }
  });
  return packed;
}

}  // namespace saccade::cpu
