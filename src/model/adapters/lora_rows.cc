#include "model/adapters/lora_rows.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace saccade {
namespace {

// Taken at a time: bounds the room, and is enough for a product to be one.
constexpr std::int64_t kMaxRows = 256;

}  // namespace

std::vector<LoraRows> slice_of(std::span<const LoraRows> loras, std::int64_t begin,
                               std::int64_t count) {
  std::vector<LoraRows> slice;
  for (const LoraRows& rows : loras) {
    CHECK(rows.first >= 0, "{} rows of an adapter that do not follow each other", rows.count);
    const std::int64_t first = std::max(rows.first, begin);
    const std::int64_t last = std::min(rows.first + rows.count, begin + count);
    if (first < last) slice.push_back({rows.adapter, 0, last - first, first - begin});
  }
  return slice;
}

void LoraAdder::add_scratch(Scratch& scratch, DType type, std::int64_t rows, std::int64_t rank,
                            std::span<const LoraTarget> targets) {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::map<const Linear*, std::int64_t> modules;
  std::int64_t most = 0;
  for (const LoraTarget& target : targets) {
    in = std::max(in, target.in);
    out = std::max(out, target.out);
    most = std::max(most, ++modules[target.linear]);
  }
  const std::int64_t some = rank > 0 ? std::min(rows, kMaxRows) : 0;
  scratch.add(gathered_, type, some, in);
  scratch.add(inner_, type, some, most * rank);
  scratch.add(part_, type, some, out);
}

void LoraAdder::begin(std::span<const LoraRows> loras, DeviceInts rows) {
  loras_ = loras;
  rows_ = rows;
}

LoraAdder LoraAdder::of(std::span<const LoraRows> loras) const {
  LoraAdder other = *this;
  other.loras_ = loras;
  return other;
}

bool LoraAdder::adds_to(const Linear& linear) const {
  return std::ranges::any_of(
      loras_, [&](const LoraRows& rows) { return rows.adapter->find(linear) != nullptr; });
}

void LoraAdder::add(Stream& stream, const Linear& linear, View x, View y) const {
  for (const LoraRows& rows : loras_) {
    const PackedLora::Part* const part = rows.adapter->find(linear);
    if (part == nullptr) continue;
    for (std::int64_t done = 0; done < rows.count; done += kMaxRows) {
      LoraRows some = rows;
      some.begin += done;
      some.count = std::min(kMaxRows, rows.count - done);
      if (some.first >= 0) some.first += done;
      add_some(stream, *part, x, y, some);
    }
  }
}

// The sums are always made beside y and added by one op, so that rows that follow each other get
// the bits of those that do not.
void LoraAdder::add_some(Stream& stream, const PackedLora::Part& part, View x, View y,
                         const LoraRows& rows) const {
  const std::int64_t count = rows.count;
  const bool together = rows.first >= 0;
  const DeviceInts list = together ? DeviceInts() : rows_.slice(rows.begin, count);
  View from = x;
  View to = y;
  if (together) {
    from = x.row_range(rows.first, rows.first + count);
    to = y.row_range(rows.first, rows.first + count);
  } else {
    from = gathered_.row_range(0, count).col_range(0, x.cols());
    stream.mix_rows({.x = x, .rows = list, .weights = {}, .out = from});
  }
  const View inner = inner_.row_range(0, count).col_range(0, part.down->out());
  stream.gemm({.x = from, .weight = part.down.get(), .bias = {}, .residual = {}, .y = inner});
  for (const PackedLora::Block& block : part.blocks) {
    const View sums = part_.row_range(0, count).col_range(0, block.up->out());
    stream.gemm({.x = inner.col_range(block.rank_begin, block.rank_begin + block.up->in()),
                 .weight = block.up.get(),
                 .bias = {},
                 .residual = {},
                 .y = sums});
    stream.copy_rows({.from = sums,
                      .from_rows = {},
                      .to = to.col_range(block.out_begin, block.out_begin + block.up->out()),
                      .to_rows = list,
                      .add = true});
  }
}

}  // namespace saccade
