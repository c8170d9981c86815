// Cosines and sines of a forward's positions, once for all its layers.
#include "ops/cuda/kernel.h"

namespace saccade::cuda {
namespace {

constexpr int kBlock = 256;

// The angle itself is f32, as published models have it; its reduction and the series are double:
// no table of digits of pi (and so no local memory) is needed below 2^31 radians.
SACCADE_DEVICE void sin_cos(float angle, float& sin_out, float& cos_out) {
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kHalfPi = 1.57079632679489655800;
  constexpr double kHalfPiRest = 6.12323399573676603587e-17;
  const double x = angle;
  const double quarter = rint(x * kTwoOverPi);
  const double r = fma(-quarter, kHalfPiRest, fma(-quarter, kHalfPi, x));
  const double s = r * r;
  const double sine =
      r * (1 + s * (-1.0 / 6 + s * (1.0 / 120 + s * (-1.0 / 5040 +
                                                     s * (1.0 / 362880 + s * (-1.0 / 39916800))))));
  const double cosine =
      1 + s * (-1.0 / 2 +
               s * (1.0 / 24 + s * (-1.0 / 720 + s * (1.0 / 40320 + s * (-1.0 / 3628800 +
                                                                         s * (1.0 / 479001600))))));
  const auto turns = static_cast<long long>(quarter) & 3;
  const double swapped_sine = (turns & 1) != 0 ? cosine : sine;
  const double swapped_cosine = (turns & 1) != 0 ? sine : cosine;
  sin_out = static_cast<float>((turns & 2) != 0 ? -swapped_sine : swapped_sine);
  cos_out = static_cast<float>(turns == 1 || turns == 2 ? -swapped_cosine : swapped_cosine);
}

__global__ void __launch_bounds__(kBlock) rope_table_kernel(RopeTableKernelArgs args) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t pairs = args.cos.cols;
  if (at >= args.cos.rows * pairs) return;
  const std::int64_t row = at / pairs;
  const std::int64_t pair = at % pairs;
  const std::int64_t axis = args.axis != nullptr ? args.axis[pair] : 0;
  const auto position = static_cast<float>(args.positions[axis * args.cos.rows + row]);
  const float* const inv_freq =
      static_cast<const float*>(args.inv_freq.data) +
      (args.tables != nullptr ? args.tables[row] * args.inv_freq.stride : 0);
  float sine;
  float cosine;
  sin_cos(position * inv_freq[pair], sine, cosine);
  static_cast<float*>(args.cos.data)[row * args.cos.stride + pair] = cosine * args.scale;
  static_cast<float*>(args.sin.data)[row * args.sin.stride + pair] = sine * args.scale;
}

}  // namespace

void launch_rope_table(const RopeTableKernelArgs& args, cudaStream_t stream) {
  const std::int64_t count = args.cos.rows * args.cos.cols;
  if (count == 0) return;
  SACCADE_LAUNCH(rope_table_kernel, dim3(static_cast<unsigned>((count + kBlock - 1) / kBlock)),
                 dim3(kBlock), 0, stream, args);
}

}  // namespace saccade::cuda
