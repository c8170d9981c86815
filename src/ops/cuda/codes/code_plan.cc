#include "ops/cuda/codes/code_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/rounding.h"
#include "ops/cuda/codes/code_places.h"

namespace saccade::cuda {
namespace {

using Format = StoredMatrix::Format;

constexpr std::int64_t kStepInputs = 16;

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

bool has_nibbles(const StoredMatrix& m) {
  return (m.format == Format::kAwq || m.format == Format::kGptq) && m.bits <= 4 &&
         m.output_scale.empty();
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

void place_e4m3_outputs(const CodePlan& plan, const StoredMatrixReader& part, std::int64_t begin,
                        std::int64_t end, const CodeOutputs& to) {
  for (std::int64_t out = begin; out < end; ++out) {
    const std::int64_t at = out - begin;
    for (std::int64_t group = 0; group < plan.groups; ++group)
      to.scales[group * to.group_stride + at] = part.block_scale(out, group * plan.group);
    if (!place_e4m3(part.matrix(), out, to.codes + at * to.stride))
      to.scales[at] = std::numeric_limits<float>::quiet_NaN();
  }
}

void place_nibble_outputs(const CodePlan& plan, const StoredMatrixReader& part, std::int64_t begin,
                          std::int64_t end, const CodeOutputs& to) {
  constexpr auto kPlaces = [] {
    std::array<std::uint8_t, kCodeChunk> places{};
    for (int in = 0; in < kCodeChunk; ++in)
      places[static_cast<std::size_t>(in)] = static_cast<std::uint8_t>(nibble(in));
    return places;
  }();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(end - begin));  // of one input
  for (std::int64_t place = 0; place < part.matrix().in(); ++place) {
    const std::int64_t in = input_at(plan, place);
    part.read_codes(begin, end, in, in + 1, codes.data(), 1);
    const int where = kPlaces[static_cast<std::size_t>(place % kCodeChunk)];
    const std::int64_t byte = place / kCodeChunk * kNibbleChunkBytes + where / 2;
    for (std::int64_t at = 0; at < end - begin; ++at)
      to.codes[at * to.stride + byte] |=
          static_cast<std::byte>(codes[static_cast<std::size_t>(at)] << where % 2 * 4);
  }
  for (std::int64_t group = 0; group < plan.groups; ++group) {
    const auto first = static_cast<std::size_t>(input_at(plan, group * plan.group));
    const std::int32_t id = part.group_of()[first];
    for (std::int64_t out = begin; out < end; ++out) {
      const std::int64_t at = group * to.group_stride + out - begin;
      to.scales[at] = part.scale(id, out);
      to.zeros[at] = part.zero(id, out);
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

void place_codes(const CodePlan& plan, const StoredMatrixReader& part, std::int64_t begin,
                 std::int64_t end, const CodeOutputs& to) {
  if (plan.form == CodeForm::kE4m3)
    place_e4m3_outputs(plan, part, begin, end, to);
  else
    place_nibble_outputs(plan, part, begin, end, to);
}

}  // namespace saccade::cuda
