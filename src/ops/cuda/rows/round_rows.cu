// Rows of activations as bytes: int8_rows.h is the definition, and the bits are its own.
#include "ops/cuda/codes/code_kernels.h"
#include "ops/cuda/rows/grid.h"
#include "ops/formats/int8_limits.h"

namespace saccade::cuda {
namespace {

constexpr int kBlock = 256;
constexpr unsigned kInfinityBits = 0x7f800000U;

template <typename T>
SACCADE_DEVICE float at(const T* row, std::int64_t cols, std::int64_t col) {
  return col < cols ? widen(row[col]) : 0.0f;
}

// One block a row. Magnitudes are compared by their bits, where what is no number is the largest.
template <typename T>
__global__ void __launch_bounds__(kBlock) round_rows_kernel(RoundRowsKernelArgs args) {
  SACCADE_SHARED(unsigned, largest, kBlock / 32);
  const std::int64_t row = blockIdx.x;
  const std::int64_t cols = args.x.cols;
  const T* const x = static_cast<const T*>(args.x.data) + row * args.x.stride;
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  const auto warps = static_cast<unsigned>(blockDim.x) / 32;
  unsigned most = 0;
  for (std::int64_t col = thread; col < cols; col += blockDim.x)
    most = larger(most, bits_of(widen(x[col])) & 0x7fffffffU);
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
    most = larger(most, __shfl_xor_sync(kFullWarp, most, mask));
  if (thread % 32 == 0) largest[thread / 32] = most;
  __syncthreads();
  for (unsigned warp = 0; warp < warps; ++warp) most = larger(most, largest[warp]);

  const float clip = float_of(most);
  const bool finite = most < kInfinityBits;
  const bool zero = !finite || clip < kInt8Least;
  const float inverse = zero ? 0.0f : 127.0f / clip;
  if (thread == 0) {
    const float none = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    args.scales[row] = zero ? none : clip / 127.0f;
  }
  auto* const codes = reinterpret_cast<std::uint32_t*>(args.codes + row * args.stride);
  for (std::int64_t word = thread; word < args.stride / 4; word += blockDim.x) {
    std::uint32_t packed = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scaled = at(x, cols, 4 * word + i) * inverse;
      const float code = rintf(larger(-127.0f, smaller(scaled, 127.0f)));
      packed |= (static_cast<std::uint32_t>(static_cast<std::int32_t>(zero ? 0.0f : code)) & 0xffU)
                << 8 * i;
    }
    codes[word] = packed;
  }
}

}  // namespace

void launch_round_rows(const RoundRowsKernelArgs& args, cudaStream_t stream) {
  if (args.x.rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.x.rows));
  const dim3 block(args.x.cols <= 512 ? 64 : kBlock);
  if (args.x.type == DType::kBf16)
    SACCADE_LAUNCH(round_rows_kernel<Bf16>, grid, block, 0, stream, args);
  else
    SACCADE_LAUNCH(round_rows_kernel<float>, grid, block, 0, stream, args);
}

}  // namespace saccade::cuda
