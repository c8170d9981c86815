#include "benchmarks/gpu/device_bench.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/rng.h"

namespace saccade {
namespace {

// Rows of random numbers that weights and activations are cut out of, each from another place on:
// a matrix of gigabytes is not worth as many random numbers.
constexpr std::size_t kNoise = (std::size_t{1} << 20) + 7;
// Rows of a weight until they come again.
constexpr std::int64_t kBand = 1024;
constexpr float kWeightScale = 0.05f;

}  // namespace

DeviceBench::DeviceBench(std::unique_ptr<Device> device, Figures& figures, double seconds,
                         bool rehearsal)
    : device_(std::move(device)),
      figures_(figures),
      end_(clock_.now() + Nanos(static_cast<std::int64_t>(seconds * 1e9))),
      rehearsal_(rehearsal),
      noise_(kNoise) {
  Rng rng(5);
  for (float& value : noise_) value = static_cast<float>(2 * rng.uniform() - 1);
}

bool DeviceBench::over() const { return clock_.now() > end_; }

DeviceMatrix DeviceBench::empty(std::int64_t rows, std::int64_t cols, DType type) {
  auto buffer = device_->allocate(static_cast<std::size_t>(rows * cols) * size_of(type));
  CHECK(buffer.has_value(), "{}", buffer.error().message);
  const View view = buffer->view(type, rows, cols);
  return {std::move(*buffer), view};
}

DeviceMatrix DeviceBench::random(std::int64_t rows, std::int64_t cols, DType type, float scale) {
  DeviceMatrix made = empty(rows, cols, type);
  auto host = allocate_host(static_cast<std::size_t>(rows * cols) * sizeof(float));
  CHECK(host.has_value(), "{}", host.error().message);
  const View from = host->view(DType::kF32, rows, cols);
  device_->pool().parallel_each(rows, [&](std::int64_t row, int) {
    float* const to = from.row<float>(row);
    std::size_t at = static_cast<std::size_t>(row) * 7919 % kNoise;
    for (std::int64_t col = 0; col < cols; ++col) {
      to[col] = scale * noise_[at];
      if (++at == kNoise) at = 0;
    }
  });
  stream().upload(from, made.view);
  stream().synchronize();
  return made;
}

std::unique_ptr<PackedWeight> DeviceBench::weight(std::int64_t out, std::int64_t in,
                                                  DType compute) {
  // Bands of the same rows, one below another.
  const std::int64_t band = std::min(out, kBand);
  std::vector<float> rows(static_cast<std::size_t>(band * in));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = kWeightScale * noise_[i % kNoise];
  const View view(rows.data(), DType::kF32, band, in);
  std::vector<StoredMatrix> parts;
  for (std::int64_t row = 0; row < out; row += band)
    parts.emplace_back(view.row_range(0, std::min(band, out - row)));
  return device_->pack(parts, compute);
}

float DeviceBench::weight_at(std::int64_t in, std::int64_t row, std::int64_t col) const {
  const auto at = static_cast<std::size_t>(row % kBand * in + col);
  return to_float(to_bf16(kWeightScale * noise_[at % kNoise]));
}

Buffer DeviceBench::download(View from) {
  auto host = device_->allocate(
      static_cast<std::size_t>(from.rows() * from.cols()) * size_of(from.dtype()), Space::kHost);
  CHECK(host.has_value(), "{}", host.error().message);
  stream().download(from, host->view(from.dtype(), from.rows(), from.cols()));
  stream().synchronize();
  return std::move(*host);
}

double DeviceBench::time(const std::function<void()>& op) {
  const auto round = [&](int calls) {
    const Nanos begin = clock_.now();
    for (int call = 0; call < calls; ++call) op();
    stream().synchronize();
    return seconds(clock_.now() - begin) / calls;
  };
  const double first = round(1);
  if (rehearsal_) return std::min(first, round(1));
  constexpr double kRound = 0.02;  // seconds
  const double once = round(1);
  const int calls = static_cast<int>(std::clamp(kRound / once, 1.0, 1000.0));
  std::array<double, 3> rounds;
  for (double& each : rounds) each = round(calls);
  std::sort(rounds.begin(), rounds.end());
  return rounds[1];
}

}  // namespace saccade
