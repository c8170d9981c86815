// Rows of activations as E4M3: e4m3_rows.h is the definition, and the bits are its own.
#include "ops/cuda/products/e4m3_kernels.h"
#include "ops/cuda/rows/grid.h"
#include "ops/cuda/attention/kv_codes.h"

namespace saccade::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kWarps = kBlock / 32;

// How a group whose largest magnitude has the bits `most` is rounded; what is no number is the
// largest.
class Rounding {
 public:
  SACCADE_DEVICE Rounding(unsigned most, float given) {
    const float largest = float_of(most);
    const bool finite = most < 0x7f800000U;
    zeros_ = !finite || largest < kInt8Least;
    scale_ = given > 0 ? given : zeros_ ? 0.0f : largest / 448.0f;
    if (!finite) scale_ = std::numeric_limits<float>::quiet_NaN();
  }
  SACCADE_DEVICE float scale() const { return scale_; }
  SACCADE_DEVICE std::uint32_t code(float value) const {
    return zeros_ ? 0U : std::uint32_t{e4m3_code(value / scale_)};
  }

 private:
  bool zeros_;
  float scale_;
};

SACCADE_DEVICE unsigned largest_of_warp(unsigned most) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
    most = larger(most, __shfl_xor_sync(kFullWarp, most, mask));
  return most;
}

// The largest magnitude of columns [begin, end) among every `step`th thread's, by its bits.
template <typename T>
SACCADE_DEVICE unsigned largest_bits(const T* x, std::int64_t begin, std::int64_t end,
                                     std::int64_t thread, std::int64_t step) {
  unsigned most = 0;
  for (std::int64_t col = begin + thread; col < end; col += step)
    most = larger(most, bits_of(widen(x[col])) & 0x7fffffffU);
  return most;
}

// Codes of columns [begin, end), four at a time; zero from `cols` on. Both begin with a word.
template <typename T>
SACCADE_DEVICE void write_codes(const T* x, std::int64_t cols, std::byte* codes, std::int64_t begin,
                                std::int64_t end, const Rounding& rounding, std::int64_t thread,
                                std::int64_t step) {
  for (std::int64_t col = begin + 4 * thread; col < end; col += 4 * step) {
    std::uint32_t packed = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (col + i < cols) packed |= rounding.code(widen(x[col + i])) << 8 * i;
    *reinterpret_cast<std::uint32_t*>(codes + col) = packed;
  }
}

template <typename T>
SACCADE_DEVICE const T* row_of(const Rows& x, std::int64_t row) {
  return static_cast<const T*>(x.data) + row * x.stride;
}

// One block a row, which has one scale.
template <typename T>
__global__ void __launch_bounds__(kBlock) round_e4m3_kernel(RoundE4m3KernelArgs args) {
  SACCADE_SHARED(unsigned, largest, kWarps);
  const std::int64_t row = blockIdx.x;
  const T* const x = row_of<T>(args.x, row);
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  unsigned most = largest_of_warp(largest_bits(x, 0, args.x.cols, thread, blockDim.x));
  if (thread % 32 == 0) largest[thread / 32] = most;
  __syncthreads();
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) most = larger(most, largest[warp]);
  const Rounding rounding(most, args.given);
  if (thread == 0) args.out.scales[row] = rounding.scale();
  write_codes(x, args.x.cols, args.out.codes + row * args.out.stride, 0, args.out.stride, rounding,
              thread, blockDim.x);
}

// One warp a group of a row.
template <typename T>
__global__ void __launch_bounds__(kBlock) round_e4m3_groups_kernel(RoundE4m3KernelArgs args) {
  const std::int64_t groups = (args.x.cols + args.group - 1) / args.group;
  const std::int64_t which = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (which >= groups * args.x.rows) return;
  const std::int64_t row = which / groups;
  const std::int64_t group = which % groups;
  const std::int64_t begin = group * args.group;
  const auto lane = static_cast<std::int64_t>(threadIdx.x % 32);
  const T* const x = row_of<T>(args.x, row);
  const unsigned most =
      largest_of_warp(largest_bits(x, begin, smaller(begin + args.group, args.x.cols), lane, 32));
  const Rounding rounding(most, args.given);
  if (lane == 0) args.out.scales[group * args.out.group_step + row] = rounding.scale();
  const std::int64_t end = group + 1 == groups ? args.out.stride : begin + args.group;
  write_codes(x, args.x.cols, args.out.codes + row * args.out.stride, begin, end, rounding, lane,
              32);
}

template <typename T>
void launch(const RoundE4m3KernelArgs& args, cudaStream_t stream) {
  if (args.group >= args.x.cols) {
    SACCADE_LAUNCH(round_e4m3_kernel<T>, dim3(static_cast<unsigned>(args.x.rows)),
                   dim3(args.x.cols <= 512 ? 64 : kBlock), 0, stream, args);
    return;
  }
  const std::int64_t warps = args.x.rows * ((args.x.cols + args.group - 1) / args.group);
  SACCADE_LAUNCH(round_e4m3_groups_kernel<T>,
                 dim3(static_cast<unsigned>((warps + kWarps - 1) / kWarps)), dim3(kBlock), 0,
                 stream, args);
}

}  // namespace

void launch_round_e4m3(const RoundE4m3KernelArgs& args, cudaStream_t stream) {
  if (args.x.rows == 0) return;
  if (args.x.type == DType::kBf16)
    launch<Bf16>(args, stream);
  else
    launch<float>(args, stream);
}

}  // namespace saccade::cuda
