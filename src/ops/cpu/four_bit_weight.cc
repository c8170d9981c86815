// Packing of codes of four bits: inputs are put into the order of their groups, so that a group is
// read as one run, and x is put into the same order before each product.
#include "ops/cpu/four_bit_weight.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/host_memory.h"
#include "ops/cpu/packed_pieces.h"
#include "ops/cpu/super_blocks_by_bytes.h"

namespace saccade::cpu {
namespace {

constexpr std::int64_t kUnit = 32;      // inputs that have one group at least
constexpr std::int64_t kBlock = 128;    // inputs whose codes share words of a matrix unit
constexpr std::int64_t kRows = 64;      // packed at a time: whole panels
constexpr std::int64_t kDepth = 64;     // of a tile that is read at a time
constexpr std::int64_t kWordCodes = 8;  // of 32 bits
constexpr std::int64_t kLine = 64;

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

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
  order.group = counts.size() == 1 ? round_up(counts.front(), kUnit) : counts.front();
  order.fits = order.group % kUnit == 0 && counts.back() <= order.group &&
               std::ranges::all_of(std::span(counts).first(counts.size() - 1),
                                   [&](std::int64_t count) { return count == order.group; });
  return order;
}

}  // namespace

struct FourBitWeight::Part {
  explicit Part(const StoredMatrix& matrix)
      : codes(matrix), order(codes.has_four_bit_codes() ? order_of(codes.group_of()) : Order{}) {}

  StoredMatrixReader codes;
  Order order;
  std::int64_t first = 0;  // where its outputs begin

  std::int64_t out() const { return codes.matrix().out(); }
  // Whether its words hold eight inputs each, in the packed order, and nothing else.
  bool has_whole_words() const;
};

const FourBitWeight* four_bits(const PackedWeight* weight) {
  return dynamic_cast<const FourBitWeight*>(weight);
}

std::unique_ptr<FourBitWeight> FourBitWeight::pack(std::span<const StoredMatrix> parts,
                                                   std::int64_t lanes, CodeOrder code_order,
                                                   ThreadPool& pool) {
  for (const StoredMatrix& matrix : parts) {
    if (matrix.format == StoredMatrix::Format::kNumbers || matrix.dequantize) return nullptr;
  }
  const bool by_bytes = std::ranges::all_of(parts, &StoredMatrix::rounds_activations);
  if (by_bytes && std::ranges::all_of(parts, has_super_blocks) && parts.front().in() > 0)
    return pack_super_blocks(parts, lanes, pool);
  if (by_bytes) code_order = CodeOrder::kInputs;
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
  std::unique_ptr<FourBitWeight> packed(new FourBitWeight(out, parts.front().in(), order.group,
                                                          scale_type, lanes, code_order, by_bytes));
  packed->allocate();
  if (!std::ranges::is_sorted(order.inputs)) packed->order_ = order.inputs;
  pool.parallel_each((out + kRows - 1) / kRows, [&](std::int64_t unit, int) {
    for (const Part& part : read) packed->store(part, unit * kRows, (unit + 1) * kRows);
  });
  return packed;
}

FourBitWeight::FourBitWeight(std::int64_t out, std::int64_t in, std::int64_t group,
                             DType scale_type, std::int64_t lanes, CodeOrder order, bool by_bytes)
    : PackedWeight(out, in), lanes_(lanes), code_order_(order), by_bytes_(by_bytes) {
  const std::int64_t groups = (in + group - 1) / group;
  layout_.panels = (out + lanes - 1) / lanes;
  layout_.group = group;
  layout_.scale_type = scale_type;
  layout_.zeros = groups * lanes * static_cast<std::int64_t>(size_of(scale_type));
  layout_.codes = round_up(layout_.zeros + groups * lanes, kLine);
  layout_.panel_stride = round_up(
      layout_.codes + round_up(in, order == CodeOrder::kRows ? kBlock : kUnit) * lanes / 2, kLine);
}

FourBitWeight::FourBitWeight(std::int64_t out, std::int64_t in, std::int64_t lanes)
    : PackedWeight(out, in), lanes_(lanes), code_order_(CodeOrder::kInputs), by_bytes_(true) {
  layout_.panels = (out + lanes - 1) / lanes;
  layout_.group = kBlockUnit;
  layout_.scale_type = DType::kF16;
  layout_.super_blocks = true;
  layout_.panel_stride =
      round_up(in / SuperBlock::kElements * SuperBlockLayout{lanes}.bytes(), kLine);
}

std::unique_ptr<FourBitWeight> FourBitWeight::pack_super_blocks(std::span<const StoredMatrix> parts,
                                                                std::int64_t lanes,
                                                                ThreadPool& pool) {
  std::int64_t out = 0;
  for (const StoredMatrix& part : parts) out += part.out();
  std::unique_ptr<FourBitWeight> packed(new FourBitWeight(out, parts.front().in(), lanes));
  packed->allocate();
  const std::int64_t blocks = packed->in() / SuperBlock::kElements;
  pool.parallel_each((out + kRows - 1) / kRows, [&](std::int64_t unit, int) {
    std::int64_t first = 0;
    for (const StoredMatrix& part : parts) {
      const std::int64_t begin = std::max(unit * kRows, first);
      const std::int64_t end = std::min((unit + 1) * kRows, first + part.out());
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t block = 0; block < blocks; ++block)
          packed->store_super_block(super_block(part, row - first, block), row, block);
      first += part.out();
    }
  });
  return packed;
}

void FourBitWeight::store_super_block(const SuperBlock& block, std::int64_t out,
                                      std::int64_t index) {
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

void FourBitWeight::unpack_super_blocks(std::int64_t out, float* values) const {
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

void FourBitWeight::allocate() {
  Result<Buffer> storage = allocate_host(storage_bytes());
  CHECK(storage.has_value(), "weight {}x{}: {}", out(), in(), storage.error().message);
  adopt(std::move(*storage));
}

void FourBitWeight::adopt(Buffer storage) {
  storage_ = std::move(storage);
  layout_.weights = storage_.data();
}

PackedForm FourBitWeight::form() const {
  PackedForm form{out(), in(), {}, {}};
  form.layout = {layout_.super_blocks ? kSuperBlockForm : kFourBitForm,
                 static_cast<std::int64_t>(layout_.scale_type),
                 layout_.group,
                 lanes_,
                 static_cast<std::int64_t>(code_order_),
                 by_bytes_ ? 1 : 0};
  form.pieces = {std::span(storage_.data(), storage_bytes()), std::as_bytes(std::span(order_))};
  return form;
}

std::unique_ptr<PackedWeight> FourBitWeight::restore(const PackedForm& form, std::int64_t lanes,
                                                     std::shared_ptr<const void> owner) {
  const auto& [kind, scale_type, group, its_lanes, order, by_bytes] = form.layout;
  const bool super_blocks = kind == kSuperBlockForm;
  if ((kind != kFourBitForm && !super_blocks) || its_lanes != lanes || group < 1 ||
      form.pieces.size() != 2)
    return nullptr;
  std::unique_ptr<FourBitWeight> weight(
      super_blocks ? new FourBitWeight(form.out, form.in, lanes)
                   : new FourBitWeight(form.out, form.in, group, static_cast<DType>(scale_type),
                                       lanes, static_cast<CodeOrder>(order), by_bytes != 0));
  const std::size_t ordered = static_cast<std::size_t>(form.in) * sizeof(std::int32_t);
  if (form.pieces[0].size() != weight->storage_bytes() ||
      (!form.pieces[1].empty() && form.pieces[1].size() != ordered))
    return nullptr;
  weight->adopt(borrow(form.pieces[0], std::move(owner)));
  weight->order_ = list_of<std::int32_t>(form.pieces[1]);
  return weight;
}

FourBitWeight::Place FourBitWeight::place(std::int64_t lane, std::int64_t input) const {
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

void FourBitWeight::store_grid(const Part& part, std::int64_t row) {
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

bool FourBitWeight::Part::has_whole_words() const {
  const StoredMatrix& matrix = codes.matrix();
  return matrix.format == StoredMatrix::Format::kPacked && matrix.bits == 4 &&
         matrix.in_begin % kWordCodes == 0 && matrix.in() % kUnit == 0 && matrix.group_of.empty();
}

// A word of eight inputs in the order that the panels have them in.
std::uint32_t FourBitWeight::in_pairs(std::uint32_t word) {
  std::uint64_t even = word & 0x0f0f0f0fU;
  std::uint64_t odd = word >> 4 & 0x0f0f0f0fU;
  std::uint64_t both = even | odd << 32;
  both = (both | both >> 4) & 0x00ff00ff00ff00ffU;
  both = (both | both >> 8) & 0x0000ffff0000ffffU;
  return static_cast<std::uint32_t>(both | both >> 16);
}

// Words that are the panels' own but for their order: the stored inputs are those of kInputs.
void FourBitWeight::store_words(const Part& part, std::int64_t begin, std::int64_t end) {
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

void FourBitWeight::store(const Part& part, std::int64_t begin, std::int64_t end) {
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

void FourBitWeight::unpack_row(std::int64_t out, float* values) const {
  if (layout_.super_blocks) return unpack_super_blocks(out, values);
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
