#include <algorithm>
#include <cstring>

#include "ops/cpu/products/super_blocks_a8.h"
#include "ops/cpu/weights/four_bit_weight.h"

namespace saccade::cpu {

SuperBlockWeight::SuperBlockWeight(std::int64_t out, std::int64_t in, std::int64_t lanes)
    : FourBitWeight(out, in, lanes, CodeOrder::kInputs, true) {
  layout_.group = kBlockUnit;
  layout_.scale_type = DType::kF16;
  layout_.super_blocks = true;
  layout_.panel_stride =
      round_up(in / SuperBlock::kElements * SuperBlockLayout{lanes}.bytes(), kLine);
}

std::unique_ptr<FourBitWeight> SuperBlockWeight::pack(std::span<const StoredMatrix> parts,
                                                      std::int64_t lanes, ThreadPool& pool) {
  std::int64_t out = 0;
  for (const StoredMatrix& part : parts) out += part.out();
  auto packed = std::make_unique<SuperBlockWeight>(out, parts.front().in(), lanes);
  packed->allocate();
  const std::int64_t blocks = packed->in() / SuperBlock::kElements;
  pool.parallel_each((out + kRows - 1) / kRows, [&](std::int64_t unit, int) {
    std::int64_t first = 0;
    for (const StoredMatrix& part : parts) {
      const std::int64_t begin = std::max(unit * kRows, first);
      const std::int64_t end = std::min((unit + 1) * kRows, first + part.out());
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t block = 0; block < blocks; ++block)
          packed->store(super_block(part, row - first, block), row, block);
      first += part.out();
    }
  });
  return packed;
}

void SuperBlockWeight::store(const SuperBlock& block, std::int64_t out, std::int64_t index) {
  const SuperBlockLayout layout{lanes_};
  const std::int64_t lane = out % lanes_;
  std::byte* const to = panel(out / lanes_) + index * layout.bytes();
  std::memcpy(to + lane * 2, &block.d, sizeof(F16));
  std::memcpy(to + layout.minima_scales() + lane * 2, &block.dmin, sizeof(F16));
  for (std::int64_t unit = 0; unit < SuperBlock::kUnits; ++unit) {
    to[layout.scales() + unit * lanes_ + lane] = static_cast<std::byte>(block.scale[unit]);
    to[layout.minima() + unit * lanes_ + lane] = static_cast<std::byte>(block.minimum[unit]);
  }
  for (std::int64_t word = 0; word < SuperBlock::kElements / kWordCodes; ++word) {
    std::uint32_t codes = 0;
    for (std::int64_t i = 0; i < kWordCodes; ++i)
      codes |= static_cast<std::uint32_t>(block.codes[word * kWordCodes + i]) << (4 * i);
    std::memcpy(to + layout.codes() + (word * lanes_ + lane) * 4, &codes, sizeof(codes));
  }
}

void SuperBlockWeight::unpack_row(std::int64_t out, float* values) const {
  const SuperBlockLayout layout{lanes_};
  const std::int64_t lane = out % lanes_;
  for (std::int64_t index = 0; index < in() / SuperBlock::kElements; ++index) {
    const std::byte* const from = panel(out / lanes_) + index * layout.bytes();
    const float d = to_float(reinterpret_cast<const F16*>(from)[lane]);
    const float dmin = to_float(reinterpret_cast<const F16*>(from + layout.minima_scales())[lane]);
    for (std::int64_t i = 0; i < SuperBlock::kElements; ++i, ++values) {
      const std::int64_t grid = i / kBlockUnit * lanes_ + lane;
      const float by = d * static_cast<float>(std::to_integer<int>(from[layout.scales() + grid]));
      const float less =
          dmin * static_cast<float>(std::to_integer<int>(from[layout.minima() + grid]));
      const std::int64_t at = (i / kWordCodes * lanes_ + lane) * 4 + i % kWordCodes / 2;
      const auto code = from[layout.codes() + at] >> (i % 2 * 4) & std::byte{15};
      *values = by * static_cast<float>(std::to_integer<int>(code)) - less;
    }
  }
}

}  // namespace saccade::cpu
