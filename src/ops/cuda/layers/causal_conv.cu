// The convolution before a recurrent layer's state: a few taps along each sequence, every column by
// itself, with the last rows kept in the sequence's page.
#include "ops/cuda/rows/activate.h"
#include "ops/cuda/kernel.h"
#include "ops/cuda/layers/recurrent_kernels.h"

namespace saccade::cuda {
namespace {

constexpr int kCols = 128;  // of a block, one a thread
// Rows that are on their way at once. A thread walks its column down the span, so that out may be
// x; what hides the memory's latency is that many loads a thread, and in decode many spans.
constexpr int kAhead = 32;

// One thread a column of a span. kTaps: room for the taps, which stand at its end.
template <typename T, int kTaps>
__global__ void __launch_bounds__(kCols) causal_conv_kernel(CausalConvKernelArgs args) {
  SACCADE_SHARED(float, ahead, kAhead* kCols);  // each thread reads what it wrote
  const std::int64_t cols = args.x.cols;
  const auto pieces = static_cast<unsigned>((cols + kCols - 1) / kCols);
  const StateSpanEntry span = args.spans[blockIdx.x / pieces];
  const std::int64_t col = std::int64_t{blockIdx.x % pieces} * kCols + threadIdx.x;
  if (span.row_count <= 0 || col >= cols) return;
  const auto taps = static_cast<int>(args.weight.rows);
  const int first = kTaps - taps;
  const float* const weights = static_cast<const float*>(args.weight.data) + col;
  float* const state = static_cast<float*>(args.states.data) + span.page * args.states.stride + col;
  float weight[kTaps];
  float window[kTaps];  // the rows before, oldest first, and at the end the row itself
#pragma unroll
  for (int i = 0; i < kTaps; ++i) {
    weight[i] = i >= first ? weights[(i - first) * args.weight.stride] : 0.0f;
    const bool kept = i >= first && i + 1 < kTaps && span.fresh == 0;
    window[i] = kept ? state[(i - first) * cols] : 0.0f;
  }

  const T* const x = static_cast<const T*>(args.x.data) + span.row_begin * args.x.stride + col;
  T* const out = static_cast<T*>(args.out.data) + span.row_begin * args.out.stride + col;
  float* const slots = ahead + threadIdx.x;
  for (std::int64_t begin = 0; begin < span.row_count; begin += kAhead) {
    const auto count = static_cast<int>(smaller<std::int64_t>(kAhead, span.row_count - begin));
    T read[kAhead] = {};
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (i < count) read[i] = x[(begin + i) * args.x.stride];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (i < count) slots[i * kCols] = widen(read[i]);
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      window[kTaps - 1] = slots[i * kCols];
      float sum = 0;
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap)
        if (tap >= first) sum += window[tap] * weight[tap];
      narrow(activate(args.activation, sum), out[(begin + i) * args.out.stride]);
#pragma unroll
      for (int tap = 0; tap + 1 < kTaps; ++tap) window[tap] = window[tap + 1];
    }
  }
#pragma unroll
  for (int i = 0; i + 1 < kTaps; ++i)
    if (i >= first) state[(i - first) * cols] = window[i];
}

template <typename T>
void launch_as(const CausalConvKernelArgs& args, cudaStream_t stream) {
  const std::int64_t pieces = (args.x.cols + kCols - 1) / kCols;
  const dim3 grid(static_cast<unsigned>(args.span_count * pieces));
  if (args.weight.rows <= 4)
    SACCADE_LAUNCH((causal_conv_kernel<T, 4>), grid, dim3(kCols), 0, stream, args);
  else
    SACCADE_LAUNCH((causal_conv_kernel<T, 8>), grid, dim3(kCols), 0, stream, args);
}

}  // namespace

void launch_causal_conv(const CausalConvKernelArgs& args, cudaStream_t stream) {
  if (args.span_count == 0 || args.x.rows == 0 || args.x.cols == 0) return;
  if (args.x.type == DType::kBf16)
    launch_as<Bf16>(args, stream);
  else
    launch_as<float>(args, stream);
}

}  // namespace saccade::cuda
