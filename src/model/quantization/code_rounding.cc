#include "model/quantization/code_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "model/quantization/matrix_rows.h"

namespace saccade {
namespace {

constexpr int kClips = 24;
constexpr int kPatience = 3;
constexpr float kWidest = 1.06F;
constexpr float kStep = 0.02F;
constexpr float kLeast = 1e-30F;
constexpr float kMagic = 12582912.0F;  // adding 1.5 * 2^23 leaves no bits for a fraction

float largest(std::span<const float> values) {
  float most = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
    most = std::max(most, std::abs(value));
  }
  return most;
}

float rounded(float scale, DType type) {
  if (type == DType::kBf16) return to_float(to_bf16(scale));
  if (type == DType::kF16) return to_float(to_f16(scale));
  return scale;
}

struct Grid {
  float low;
  float high;
  float scale;
  float inverse;

  float code(float value) const {
    const float inside = std::min(std::max(value * inverse, low), high);
    return (inside + kMagic) - kMagic;
  }
};

float squared_error(std::span<const float> values, const Grid& grid) {
  std::array<float, 16> parts{};
  std::size_t at = 0;
  for (; at + 16 <= values.size(); at += 16) {
    for (std::size_t i = 0; i < 16; ++i) {
      const float error = values[at + i] - grid.code(values[at + i]) * grid.scale;
      parts[i] += error * error;
    }
  }
  for (std::size_t i = 0; at + i < values.size(); ++i) {
    const float error = values[at + i] - grid.code(values[at + i]) * grid.scale;
    parts[i] += error * error;
  }
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

}  // namespace

float round_group(std::span<const float> values, const CodeRounding& rounding,
                  std::span<std::int8_t> codes) {
  const float most = largest(values);
  if (std::isnan(most) || most < kLeast) {
    std::ranges::fill(codes, std::int8_t{0});
    return std::isnan(most) ? most : 0.0F;
  }
  const auto levels = static_cast<float>(1 << (rounding.bits - 1));
  Grid best{};
  float least = std::numeric_limits<float>::infinity();
  int worse = 0;
  for (int i = 0; i < kClips && worse < kPatience; ++i) {
    const float scale = rounded(most / (levels - 0.5F) * (kWidest - kStep * static_cast<float>(i)),
                                rounding.scale_type);
    if (!(scale > 0) || !std::isfinite(1 / scale)) break;  // below what the type has
    const Grid grid{-levels, levels - 1, scale, 1 / scale};
    const float error = squared_error(values, grid);
    worse = error < least ? 0 : worse + 1;
    if (error < least) {
      least = error;
      best = grid;
    }
  }
  if (best.scale == 0) {
    std::ranges::fill(codes, std::int8_t{0});
    return 0;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    codes[i] = static_cast<std::int8_t>(best.code(values[i]));
  return best.scale;
}

std::int64_t group_of_inputs(std::int64_t in, std::int64_t most) {
  for (const std::int64_t group : {128, 64, 32}) {
    if (group <= most && in % group == 0) return group;
  }
  return 0;
}

RoundedMatrix::RoundedMatrix(const StoredMatrix& numbers, const CodeRounding& rounding,
                             ThreadPool& pool)
    : rounding_(rounding),
      out_(numbers.out()),
      in_(numbers.in()),
      group_(rounding.group == 0 ? in_ : rounding.group),
      groups_((in_ + group_ - 1) / group_) {
  CHECK(rounding.bits == 4 || rounding.bits == 8, "codes of {} bits", rounding.bits);
  const std::int64_t per_word = 32 / rounding.bits;
  row_words_ = (in_ + per_word - 1) / per_word;
  words_.resize(static_cast<std::size_t>(out_ * row_words_));
  const std::size_t width = size_of(rounding.scale_type);
  scales_.resize(static_cast<std::size_t>(out_ * groups_) * width);
  std::vector<std::vector<std::int8_t>> rooms(static_cast<std::size_t>(pool.size()));
  each_row(numbers, pool, [&](std::int64_t row, std::span<const float> all, int worker) {
    std::vector<std::int8_t>& codes = rooms[static_cast<std::size_t>(worker)];
    codes.resize(static_cast<std::size_t>(in_));
    for (std::int64_t group = 0; group < groups_; ++group) {
      const auto at = static_cast<std::size_t>(group * group_);
      const auto count = static_cast<std::size_t>(std::min(group_, in_ - group * group_));
      const float scale =
          round_group(all.subspan(at, count), rounding_, std::span(codes).subspan(at, count));
      const std::uint16_t half =
          rounding_.scale_type == DType::kF16 ? to_f16(scale).bits : to_bf16(scale).bits;
      std::byte* const to =
          scales_.data() + static_cast<std::size_t>(row * groups_ + group) * width;
      if (rounding_.scale_type == DType::kF32)
        std::memcpy(to, &scale, width);
      else
        std::memcpy(to, &half, width);
    }
    std::uint32_t* const words = words_.data() + row * row_words_;
    const int middle = 1 << (rounding_.bits - 1);
    for (std::int64_t i = 0; i < in_; ++i)
      words[i / per_word] |= static_cast<std::uint32_t>(codes[static_cast<std::size_t>(i)] + middle)
                             << (i % per_word * rounding_.bits);
  });
}

StoredMatrix RoundedMatrix::matrix() const {
  StoredMatrix matrix;
  matrix.format = StoredMatrix::Format::kPacked;
  matrix.stored_out = matrix.out_end = out_;
  matrix.stored_in = matrix.in_end = in_;
  matrix.codes = {DType::kI32, std::as_bytes(std::span(words_))};
  matrix.scales = {rounding_.scale_type, scales_};
  matrix.bits = rounding_.bits;
  matrix.group = group_;
  return matrix;
}

}  // namespace saccade
