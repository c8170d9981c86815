// Packing of codes of four bits: inputs are put into the order of their groups, so that a group is
// read as one run, and x is put into the same order before each product.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/cpu/weights/four_bit_weight.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kUnit = 32;    // inputs that have one group at least
constexpr std::int64_t kBlock = 128;  // inputs whose codes share words of a matrix unit
constexpr std::int64_t kDepth = 64;   // of a tile that is read at a time

// Inputs by their groups, and the groups in this order.
struct Order {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> groups;
  std::int64_t group = 0;  // inputs each, but for the last
  bool fits = true;        // all but the last have as many, a multiple of kUnit
};

Order order_of(const std::vector<std::int32_t>& group_of) {
  Order order;
  order.inputs.resize(group_of.size());
  std::iota(order.inputs.begin(), order.inputs.end(), 0);
  const auto of = [&](std::int32_t input) { return group_of[static_cast<std::size_t>(input)]; };
  std::ranges::stable_sort(order.inputs, std::less<>(), of);
  std::vector<std::int64_t> counts;
  for (const std::int32_t input : order.inputs) {
    if (order.groups.empty() || order.groups.back() != of(input)) {
      order.groups.push_back(of(input));
      counts.push_back(0);
    }
    ++counts.back();
  }
  if (counts.empty()) {
    order.fits = false;
    return order;
  }
  order.group = counts.size() == 1 ? (counts.front() + kUnit - 1) / kUnit * kUnit : counts.front();
  order.fits = order.group % kUnit == 0 && counts.back() <= order.group &&
               std::ranges::all_of(std::span(counts).first(counts.size() - 1),
                                   [&](std::int64_t count) { return count == order.group; });
  return order;
}

}  // namespace

struct GroupedCodes::Part {
  explicit Part(const StoredMatrix& matrix)
      : codes(matrix), order(codes.has_four_bit_codes() ? order_of(codes.group_of()) : Order{}) {}

  StoredMatrixReader codes;
  Order order;
  std::int64_t first = 0;  // where its outputs begin

  std::int64_t out() const { return codes.matrix().out(); }
  // Whether its words hold eight inputs each, in the packed order, and nothing else.
  bool has_whole_words() const;
};

std::unique_ptr<FourBitWeight> GroupedCodes::pack(std::span<const StoredMatrix> parts,
                                                  std::int64_t lanes, CodeOrder code_order,
                                                  bool int8_activations, ThreadPool& pool) {
  std::vector<Part> read;
  std::int64_t out = 0;
  DType scale_type = parts.front().scales.dtype;
  for (const StoredMatrix& matrix : parts) {
    const Part& part = read.emplace_back(matrix);
    if (!part.codes.has_four_bit_codes() || !part.order.fits ||
        part.order.inputs != read.front().order.inputs ||
        part.order.group != read.front().order.group)
      return nullptr;
    read.back().first = out;
    out += part.out();
    if (matrix.scales.dtype != scale_type) scale_type = DType::kF32;
  }
  const Order& order = read.front().order;
  auto packed = std::make_unique<GroupedCodes>(
      out, parts.front().in(),
      Layout{order.group, scale_type, lanes, code_order, int8_activations});
  packed->allocate();
  if (!std::ranges::is_sorted(order.inputs)) packed->order_ = order.inputs;
  pool.parallel_each((out + kRows - 1) / kRows, [&](std::int64_t unit, int) {
    for (const Part& part : read) packed->store(part, unit * kRows, (unit + 1) * kRows);
  });
  return packed;
}

GroupedCodes::GroupedCodes(std::int64_t out, std::int64_t in, const Layout& layout)
    : FourBitWeight(out, in, layout.lanes, layout.order, layout.int8_activations) {
  const std::int64_t groups = (in + layout.group - 1) / layout.group;
  const std::int64_t lanes = layout.lanes;
  layout_.group = layout.group;
  layout_.scale_type = layout.scale_type;
  layout_.zeros = groups * lanes * static_cast<std::int64_t>(size_of(layout.scale_type));
  layout_.codes = round_up(layout_.zeros + groups * lanes, kLine);
  layout_.panel_stride = round_up(
      layout_.codes + round_up(in, layout.order == CodeOrder::kRows ? kBlock : kUnit) * lanes / 2,
      kLine);
}

GroupedCodes::Place GroupedCodes::place(std::int64_t lane, std::int64_t input) const {
  if (code_order_ != CodeOrder::kRows) {
    const std::int64_t nibble = code_order_ == CodeOrder::kInputs
                                    ? input % kWordCodes
                                    : input % 2 * (kWordCodes / 2) + input % kWordCodes / 2;
    return {(input / kWordCodes * lanes_ + lane) * 4 + nibble / 2,
            static_cast<int>(nibble % 2) * 4};
  }
  const std::int64_t nibble = input % kBlock / kUnit;
  const std::int64_t word = (input / kBlock * lanes_ + lane) * kUnit + input % kUnit;
  return {word * 2 + nibble / 2, static_cast<int>(nibble % 2) * 4};
}

void GroupedCodes::store_grid(const Part& part, std::int64_t row) {
  const std::int64_t out = part.first + row;
  std::byte* const grid = panel(out / lanes_);
  for (std::size_t i = 0; i < part.order.groups.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i) * lanes_ + out % lanes_;
    const std::int32_t group = part.order.groups[i];
    const float scale = part.codes.scale(group, row);
    std::byte* const to = grid + at * static_cast<std::int64_t>(size_of(layout_.scale_type));
    const std::uint16_t half =
        layout_.scale_type == DType::kF16 ? to_f16(scale).bits : to_bf16(scale).bits;
    if (layout_.scale_type == DType::kF32)
      std::memcpy(to, &scale, sizeof(scale));
    else
      std::memcpy(to, &half, sizeof(half));
    grid[layout_.zeros + at] = static_cast<std::byte>(part.codes.zero(group, row));
  }
}

bool GroupedCodes::Part::has_whole_words() const {
  const StoredMatrix& matrix = codes.matrix();
  return matrix.format == StoredMatrix::Format::kPacked && matrix.bits == 4 &&
         matrix.in_begin % kWordCodes == 0 && matrix.in() % kUnit == 0 && matrix.group_of.empty();
}

// A word of eight inputs in the order that the panels have them in.
std::uint32_t GroupedCodes::in_pairs(std::uint32_t word) {
  std::uint64_t even = word & 0x0f0f0f0fU;
  std::uint64_t odd = word >> 4 & 0x0f0f0f0fU;
  std::uint64_t both = even | odd << 32;
  both = (both | both >> 4) & 0x00ff00ff00ff00ffU;
  both = (both | both >> 8) & 0x0000ffff0000ffffU;
  return static_cast<std::uint32_t>(both | both >> 16);
}

// Words that are the panels' own but for their order: the stored inputs are those of kInputs.
void GroupedCodes::store_words(const Part& part, std::int64_t begin, std::int64_t end) {
  const StoredMatrix& matrix = part.codes.matrix();
  const std::int64_t words = in() / kWordCodes;
  const std::int64_t row_bytes = (matrix.stored_in + kWordCodes - 1) / kWordCodes * 4;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t out = part.first + row;
    const std::byte* const from = matrix.codes.bytes.data() + (matrix.out_begin + row) * row_bytes +
                                  matrix.in_begin / kWordCodes * 4;
    std::byte* const to = panel(out / lanes_) + layout_.codes;
    const std::int64_t lane = out % lanes_;
    if (code_order_ == CodeOrder::kRows) {
      for (std::int64_t block = 0; block < in(); block += kBlock) {
        // Input 32 i + j of the block is nibble i of word j.
        std::uint16_t nibbles[kUnit] = {};
        for (std::int64_t i = 0; i < kBlock / kUnit && block + i * kUnit < in(); ++i) {
          std::uint8_t bytes[kUnit / 2];
          std::memcpy(bytes, from + (block + i * kUnit) / 2, sizeof(bytes));
          for (std::int64_t j = 0; j < kUnit / 2; ++j) {
            nibbles[2 * j] |= static_cast<std::uint16_t>((bytes[j] & 15) << (4 * i));
            nibbles[2 * j + 1] |= static_cast<std::uint16_t>((bytes[j] >> 4) << (4 * i));
          }
        }
        std::memcpy(to + (block / kBlock * lanes_ + lane) * kUnit * 2, nibbles, sizeof(nibbles));
      }
      continue;
    }
    for (std::int64_t i = 0; i < words; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, from + i * 4, sizeof(word));
      if (code_order_ == CodeOrder::kPairs) word = in_pairs(word);
      std::memcpy(to + (i * lanes_ + lane) * 4, &word, sizeof(word));
    }
  }
}

void GroupedCodes::store(const Part& part, std::int64_t begin, std::int64_t end) {
  begin = std::max(begin, part.first) - part.first;
  end = std::min(end - part.first, part.out());
  if (begin >= end) return;
  for (std::int64_t row = begin; row < end; ++row) store_grid(part, row);
  if (part.has_whole_words()) return store_words(part, begin, end);
  std::vector<std::int32_t> packed_at(static_cast<std::size_t>(in()));  // of each input
  for (std::size_t i = 0; i < packed_at.size(); ++i)
    packed_at[static_cast<std::size_t>(part.order.inputs[i])] = static_cast<std::int32_t>(i);
  std::uint8_t tile[kRows * kDepth];
  for (std::int64_t col = 0; col < in(); col += kDepth) {
    const std::int64_t cols = std::min(kDepth, in() - col);
    part.codes.read_codes(begin, end, col, col + cols, tile, kDepth);
    for (std::int64_t i = 0; i < cols; ++i) {
      const std::int64_t input = packed_at[static_cast<std::size_t>(col + i)];
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t out = part.first + row;
        const Place at = place(out % lanes_, input);
        panel(out / lanes_)[layout_.codes + at.byte] |=
            static_cast<std::byte>(tile[(row - begin) * kDepth + i] << at.shift);
      }
    }
  }
}

void GroupedCodes::unpack_row(std::int64_t out, float* values) const {
  const std::byte* const from = panel(out / lanes_);
  for (std::int64_t input = 0; input < in(); ++input) {
    const std::int64_t grid = input / layout_.group * lanes_ + out % lanes_;
    float scale = 0;
    if (layout_.scale_type == DType::kF32)
      std::memcpy(&scale, from + grid * 4, sizeof(scale));
    else if (layout_.scale_type == DType::kF16)
      scale = to_float(reinterpret_cast<const F16*>(from)[grid]);
    else
      scale = to_float(reinterpret_cast<const Bf16*>(from)[grid]);
    const Place at = place(out % lanes_, input);
    const auto code = static_cast<int>(from[layout_.codes + at.byte] >> at.shift & std::byte{15});
    const auto zero = static_cast<int>(from[layout_.zeros + grid]);
    const auto to = order_.empty() ? input : order_[static_cast<std::size_t>(input)];
    values[to] = static_cast<float>(code - zero) * scale;
  }
}

}  // namespace saccade::cpu
