#include "ops/cuda/codes/code_plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/rounding.h"
#include "ops/cuda/codes/code_places.h"
#include "ops/formats/e8m0.h"

namespace saccade::cuda {
namespace {

using Format = StoredMatrix::Format;

constexpr std::int64_t kStepInputs = 16;

float float_at(const StoredValues& from, std::int64_t index) {
  const std::byte* const at =
      from.bytes.data() + static_cast<std::size_t>(index) * size_of(from.dtype);
  if (from.dtype == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  if (from.dtype == DType::kU8) return e8m0_number(static_cast<std::uint8_t>(*at));
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return from.dtype == DType::kF16 ? to_float(F16{bits}) : to_float(Bf16{bits});
}

std::optional<CodePlan> plan_e4m3(std::span<const StoredMatrix> parts) {
  const std::int64_t in = parts.front().in();
  CodePlan plan;
  plan.group = in;
  for (const StoredMatrix& part : parts) {
    const std::int64_t group = e4m3_group(part, kStepInputs);
    if (group == 0 || (group != in && plan.group != in && group != plan.group)) return {};
    plan.group = std::min(plan.group, group);
  }
  plan.groups = ceil_div(in, plan.group);
  return plan;
}

// Codes of four bits and less, as stored_matrix.h says that they lie; inputs and outputs are those
// of the window.
constexpr int kWordBits = 32;

bool has_nibbles(const StoredMatrix& m) {
  return (m.format == Format::kAwq || m.format == Format::kGptq) && m.bits <= 4 &&
         m.output_scale.empty();
}

std::uint32_t word_at(const StoredValues& from, std::int64_t index) {
  std::uint32_t word;
  std::memcpy(&word, from.bytes.data() + index * 4, sizeof(word));
  return word;
}

// Field `out` of a row of words that hold outputs.
std::uint32_t field(const StoredMatrix& m, std::uint32_t word, std::int64_t out) {
  constexpr std::array<int, 8> kAwqNibble = {0, 4, 1, 5, 2, 6, 3, 7};
  const auto which = static_cast<std::size_t>(out % (kWordBits / m.bits));
  const int place = m.format == Format::kAwq ? kAwqNibble[which] : static_cast<int>(which);
  return word >> place * m.bits & ((1U << m.bits) - 1);
}

std::uint32_t code_at(const StoredMatrix& m, std::int64_t out, std::int64_t in) {
  const std::int64_t row = m.out_begin + out;
  const std::int64_t col = m.in_begin + in;
  const std::int64_t per_word = kWordBits / m.bits;
  if (m.format == Format::kAwq)
    return field(m, word_at(m.codes, col * (m.stored_out / per_word) + row / per_word), row);
  const std::uint32_t word = word_at(m.codes, col / per_word * m.stored_out + row);
  return word >> col % per_word * m.bits & ((1U << m.bits) - 1);
}

// Each was stored less one by a subtraction from the whole word, where it says so.
std::uint32_t zero_at(const StoredMatrix& m, std::int64_t group, std::int64_t out) {
  const std::int64_t per_word = kWordBits / m.bits;
  std::uint32_t ones = 0;
  for (int bit = 0; m.zeros_less_one && bit < kWordBits; bit += m.bits) ones |= 1U << bit;
  const std::int64_t row = m.out_begin + out;
  return field(m, word_at(m.zeros, (group * m.stored_out + row) / per_word) + ones, row);
}

std::int64_t group_of_input(const StoredMatrix& m, std::int64_t in) {
  const std::int64_t col = m.in_begin + in;
  return m.group_of.empty() ? col / m.group : static_cast<std::int32_t>(word_at(m.group_of, col));
}

std::vector<std::int32_t> groups_of_inputs(const StoredMatrix& m) {
  std::vector<std::int32_t> groups;
  for (std::int64_t in = 0; in < m.in(); ++in)
    groups.push_back(static_cast<std::int32_t>(group_of_input(m, in)));
  return groups;
}

// The input that is kept at a place.
std::int64_t input_at(const CodePlan& plan, std::int64_t place) {
  return plan.order.empty() ? place : plan.order[static_cast<std::size_t>(place)];
}

std::optional<CodePlan> plan_nibbles(const StoredMatrix& part) {
  if (!has_nibbles(part)) return {};
  const std::vector<std::int32_t> group_of = groups_of_inputs(part);
  const auto group_at = [&](std::int32_t in) { return group_of[static_cast<std::size_t>(in)]; };
  CodePlan plan;
  plan.form = CodeForm::kNibbles;
  plan.order.resize(group_of.size());
  std::iota(plan.order.begin(), plan.order.end(), 0);
  std::ranges::stable_sort(plan.order, {}, group_at);
  const std::int32_t first = group_at(plan.order.front());
  plan.group = std::ranges::count(group_of, first);
  plan.groups = ceil_div(std::ssize(group_of), plan.group);
  if (plan.groups > 1 && plan.group % kStepInputs != 0) return {};
  // Place p is in group p / length of those in order, or the groups are not of one length.
  std::int32_t id = first;
  for (std::int64_t place = 0; place < std::ssize(plan.order); ++place) {
    const std::int32_t group = group_at(plan.order[static_cast<std::size_t>(place)]);
    if ((group != id) != (place % plan.group == 0 && place > 0)) return {};
    id = group;
  }
  if (std::ranges::is_sorted(plan.order)) plan.order.clear();
  return plan;
}

bool same(const CodePlan& a, const CodePlan& b) {
  return a.form == b.form && a.group == b.group && a.groups == b.groups && a.order == b.order;
}

// False: there is a code that is no number.
bool place_e4m3(const StoredMatrix& part, std::int64_t out, std::byte* codes) {
  constexpr auto kPlaces = [] {
    std::array<std::uint8_t, kCodeChunk> places{};
    for (int in = 0; in < kCodeChunk; ++in)
      places[static_cast<std::size_t>(in)] = static_cast<std::uint8_t>(e4m3_byte(in));
    return places;
  }();
  const std::byte* const from =
      part.codes.bytes.data() + (part.out_begin + out) * part.stored_in + part.in_begin;
  bool numbers = true;
  for (std::int64_t in = 0; in < part.in(); ++in) {
    numbers = numbers && (from[in] & std::byte{0x7f}) != std::byte{0x7f};
    codes[in / kCodeChunk * kE4m3ChunkBytes + kPlaces[static_cast<std::size_t>(in % kCodeChunk)]] =
        from[in];
  }
  return numbers;
}

void place_e4m3_outputs(const CodePlan& plan, const StoredMatrix& part, std::int64_t begin,
                        std::int64_t end, const CodeOutputs& to) {
  for (std::int64_t out = begin; out < end; ++out) {
    const std::int64_t at = out - begin;
    const std::int64_t row =
        (part.out_begin + out) / part.block_out * ceil_div(part.stored_in, part.block_in);
    for (std::int64_t group = 0; group < plan.groups; ++group)
      to.scales[group * to.group_stride + at] =
          float_at(part.scales, row + (part.in_begin + group * plan.group) / part.block_in);
    if (!place_e4m3(part, out, to.codes + at * to.stride))
      to.scales[at] = std::numeric_limits<float>::quiet_NaN();
  }
}

void place_nibble_outputs(const CodePlan& plan, const StoredMatrix& part, std::int64_t begin,
                          std::int64_t end, const CodeOutputs& to) {
  constexpr auto kPlaces = [] {
    std::array<std::uint8_t, kCodeChunk> places{};
    for (int in = 0; in < kCodeChunk; ++in)
      places[static_cast<std::size_t>(in)] = static_cast<std::uint8_t>(nibble(in));
    return places;
  }();
  for (std::int64_t place = 0; place < part.in(); ++place) {
    const std::int64_t in = input_at(plan, place);
    const int where = kPlaces[static_cast<std::size_t>(place % kCodeChunk)];
    const std::int64_t byte = place / kCodeChunk * kNibbleChunkBytes + where / 2;
    for (std::int64_t out = begin; out < end; ++out)
      to.codes[(out - begin) * to.stride + byte] |=
          static_cast<std::byte>(code_at(part, out, in) << where % 2 * 4);
  }
  for (std::int64_t group = 0; group < plan.groups; ++group) {
    const std::int64_t id = group_of_input(part, input_at(plan, group * plan.group));
    for (std::int64_t out = begin; out < end; ++out) {
      const std::int64_t at = group * to.group_stride + out - begin;
      to.scales[at] = float_at(part.scales, id * part.stored_out + part.out_begin + out);
      to.zeros[at] = static_cast<std::uint8_t>(zero_at(part, id, out));
    }
  }
}

}  // namespace

std::optional<CodePlan> plan_codes(std::span<const StoredMatrix> parts) {
  const StoredMatrix& first = parts.front();
  if (first.in() == 0) return {};
  if (std::ranges::any_of(parts, &StoredMatrix::dequantize)) return {};
  if (first.format == Format::kE4m3) return plan_e4m3(parts);
  std::optional<CodePlan> plan = plan_nibbles(parts.front());
  for (const StoredMatrix& part : parts.subspan(1)) {
    const std::optional<CodePlan> other = plan ? plan_nibbles(part) : std::nullopt;
    if (!other || !same(*plan, *other)) return {};
  }
  return plan;
}

void place_codes(const CodePlan& plan, const StoredMatrix& part, std::int64_t begin,
                 std::int64_t end, const CodeOutputs& to) {
  if (plan.form == CodeForm::kE4m3)
    place_e4m3_outputs(plan, part, begin, end, to);
  else
    place_nibble_outputs(plan, part, begin, end, to);
}

}  // namespace saccade::cuda
