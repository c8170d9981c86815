#include "engine/images/embedding_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace saccade {
namespace {

constexpr std::int64_t kGroups = 32;  // of an image's rows, which are gone through side by side

template <typename T, typename ToFloat>
bool all_finite(View rows, ToFloat to_float_of) {
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    const T* const values = rows.row<T>(row);
    for (std::int64_t col = 0; col < rows.cols(); ++col) {
      if (!std::isfinite(to_float_of(values[col]))) return false;
    }
  }
  return true;
}

bool all_finite(View rows) {
  const auto widen = [](auto value) { return to_float(value); };
  if (rows.dtype() == DType::kBf16) return all_finite<Bf16>(rows, widen);
  if (rows.dtype() == DType::kF16) return all_finite<F16>(rows, widen);
  return all_finite<float>(rows, [](float value) { return value; });
}

// `to` [groups, cols] of `from`: each a sum of some of its rows, times zero. Rows that are taken
// twice change nothing.
void sum_of_zeros(Stream& stream, View from, View to) {
  const std::int64_t taps = (from.rows() + to.rows() - 1) / to.rows();
  std::vector<std::int32_t> rows(static_cast<std::size_t>(to.rows() * taps));
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::int32_t>(std::min(static_cast<std::int64_t>(i), from.rows() - 1));
  const std::vector<float> weights(rows.size(), 0.0f);
  stream.mix_rows({.x = from,
                   .rows = stream.upload(rows),
                   .weights = stream.upload(weights),
                   .taps = taps,
                   .out = to});
}

}  // namespace

Result<EmbeddingCheck> EmbeddingCheck::create(Device& device, std::int64_t width) {
  EmbeddingCheck check;
  check.width_ = width;
  check.by_host_ = device.space() == Space::kHost;
  if (check.by_host_) return check;
  const auto bytes = [&](std::int64_t rows) {
    return static_cast<std::size_t>(rows * width) * sizeof(float);
  };
  TRY(check.partial_, device.allocate(bytes(kGroups)));
  TRY(check.sums_, device.allocate(bytes(kMaxImages)));
  TRY(check.seen_, device.allocate(bytes(kMaxImages), Space::kHost));
  return check;
}

void EmbeddingCheck::submit(Stream& stream, std::span<const View> images) {
  images_ = images;
  if (by_host_) return;
  const auto count = static_cast<std::int64_t>(images.size());
  CHECK(count <= kMaxImages, "{} images, {} are the most", count, kMaxImages);
  const View partial = partial_.view(DType::kF32, kGroups, width_);
  const View sums = sums_.view(DType::kF32, kMaxImages, width_);
  for (std::int64_t i = 0; i < count; ++i) {
    const View& rows = images[static_cast<std::size_t>(i)];
    const View groups = partial.row_range(0, std::clamp<std::int64_t>(rows.rows(), 1, kGroups));
    sum_of_zeros(stream, rows, groups);
    sum_of_zeros(stream, groups, sums.row_range(i, i + 1));
  }
  stream.download(sums.row_range(0, count),
                  seen_.view(DType::kF32, kMaxImages, width_).row_range(0, count));
}

bool EmbeddingCheck::finite(std::size_t image) const {
  if (by_host_) return all_finite(images_[image]);
  const auto at = static_cast<std::int64_t>(image);
  return all_finite(seen_.view(DType::kF32, kMaxImages, width_).row_range(at, at + 1));
}

}  // namespace saccade
