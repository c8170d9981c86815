// The gated delta rule: per sequence and value head a matrix, keys by values, that forgets, learns
// a token's value at its key, and is read at its query. Its columns do not know of each other: a
// block takes some of them, holds them in registers from the first token of the span to the last,
// and reads and writes memory once. In decode that is all there is to do; loads of 32 numbers a
// thread are on their way at once. A long span is a walk, token by token; while one tile of tokens
// is worked through, the next is fetched.
#include "ops/cuda/kernel.h"
#include "ops/cuda/layers/recurrent_kernels.h"

namespace saccade::cuda {
namespace {

// A column is shared by lanes, each of which has four rows of every step of rows; a warp has eight
// columns, which are 32 bytes of each row in memory.
constexpr int kWarpCols = 8;
constexpr int kShares = 32 / kWarpCols;
constexpr int kStepRows = 4 * kShares;
constexpr int kMaxSteps = 16;  // that registers hold

// kSteps: of rows, in registers. 0: wider keys, whose state lies in shared memory.
template <int kSteps>
struct Tiling {
  static constexpr int kWarps = kSteps > 0 ? 4 : 2;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kCols = kWarps * kWarpCols;     // of a block
  static constexpr int kTokens = kSteps > 0 ? 8 : 2;   // of a tile
  static constexpr int kOwnTokens = kTokens / kWarps;  // of a warp: what it fetches and makes ready
  static constexpr int kPieces = kSteps > 0 ? (kSteps* kStepRows + 31) / 32 : 1;
};

// A thread's share of the state.
template <int kSteps>
struct Held {
  float numbers[4 * kSteps];
  SACCADE_DEVICE explicit Held(float*) {}
  SACCADE_DEVICE float& at(int i) { return numbers[i]; }
};
template <>
struct Held<0> {
  float* numbers;
  SACCADE_DEVICE explicit Held(float* room) : numbers(room + threadIdx.x) {}
  SACCADE_DEVICE float& at(int i) { return numbers[i * Tiling<0>::kThreads]; }
};

// What a warp has read of a token before its tile's turn comes: of q and k every 32nd number a
// lane, of v one, and what the gates follow from.
template <int kPieces>
struct Fetched {
  float q[kPieces];
  float k[kPieces];
  float v;
  float a;
  float b;
};

// One head's numbers of a span's rows.
template <typename T>
struct HeadRows {
  const T* q;
  const T* k;
  const T* v;  // from the block's first column on
  const T* a;
  const T* b;
  T* out;  // as v

  SACCADE_DEVICE HeadRows(const DeltaRuleKernelArgs& args, std::int64_t row, std::int64_t head,
                          std::int64_t first_col) {
    const auto shared_by =
        static_cast<unsigned>(args.heads) / static_cast<unsigned>(args.key_heads);
    const std::int64_t key_col = static_cast<unsigned>(head) / shared_by * args.key_dim;
    const std::int64_t col = head * args.value_dim + first_col;
    q = static_cast<const T*>(args.q.data) + row * args.q.stride + key_col;
    k = static_cast<const T*>(args.k.data) + row * args.k.stride + key_col;
    v = static_cast<const T*>(args.v.data) + row * args.v.stride + col;
    a = static_cast<const T*>(args.a.data) + row * args.a.stride + head;
    b = static_cast<const T*>(args.b.data) + row * args.b.stride + head;
    out = static_cast<T*>(args.out.data) + row * args.out.stride + col;
  }
};

// Over the lanes of a column: every one of them has the sum.
SACCADE_DEVICE float column_sum(const float (&sums)[4]) {
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
#pragma unroll
  for (int mask = kWarpCols; mask < 32; mask *= 2) sum += __shfl_xor_sync(kFullWarp, sum, mask);
  return sum;
}

// As published models do: above, log(1 + e^x) is x in f32.
SACCADE_DEVICE float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

// The numbers of one vector of a token, given their length: `piece(p)` is the lane's p-th of
// `dims`. Behind the last, up to `width`, are zeros.
template <typename Piece>
SACCADE_DEVICE void give_length(const Piece& piece, int pieces, int dims, int width, float scale,
                                float epsilon, float* to) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  float squares = 0;
#pragma unroll
  for (int p = 0; p < pieces; ++p)
    if (lane + 32 * p < dims) squares += piece(p) * piece(p);
  const float factor = scale / sqrtf(warp_sum(squares) + epsilon);
#pragma unroll
  for (int p = 0; p < pieces; ++p) {
    const int dim = lane + 32 * p;
    if (dim < width) to[dim] = dim < dims ? piece(p) * factor : 0.0f;
  }
}

// One block a span, value head and piece of its columns.
template <typename T, int kSteps>
__global__ void __launch_bounds__(Tiling<kSteps>::kThreads)
    delta_rule_kernel(DeltaRuleKernelArgs args) {
  using Of = Tiling<kSteps>;
  SACCADE_DYNAMIC_SHARED(float, shared);
  const auto dims = static_cast<int>(args.key_dim);
  const int steps = kSteps > 0 ? kSteps : (dims + kStepRows - 1) / kStepRows;
  const int width = steps * kStepRows;
  float* const queries = shared;                          // [kTokens][width]
  float* const keys = queries + Of::kTokens * width;      // the same
  float* const values = keys + Of::kTokens * width;       // [kTokens][kCols]
  float* const gates = values + Of::kTokens * Of::kCols;  // [kTokens][2]: decay, beta

  const auto heads = static_cast<unsigned>(args.heads);
  const auto splits = static_cast<unsigned>((args.value_dim + Of::kCols - 1) / Of::kCols);
  const std::int64_t first_col = std::int64_t{blockIdx.x % splits} * Of::kCols;
  const std::int64_t head = blockIdx.x / splits % heads;
  const StateSpanEntry span = args.spans[blockIdx.x / splits / heads];
  if (span.row_count <= 0) return;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int own_col = warp * kWarpCols + lane % kWarpCols;
  const int own_row = lane / kWarpCols * 4;  // of a step, the first of four
  const bool inside = first_col + own_col < args.value_dim;

  float* const state = static_cast<float*>(args.states.data) + span.page * args.states.stride +
                       head * args.key_dim * args.value_dim + first_col + own_col;
  Held<kSteps> held(gates + Of::kTokens * 2);
#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = step * kStepRows + own_row + i;
      const bool there = inside && row < dims && span.fresh == 0;
      held.at(4 * step + i) = there ? state[row * args.value_dim] : 0.0f;
    }

  const HeadRows<T> rows(args, span.row_begin, head, first_col);
  const float rate = expf(args.a_log[head]);
  const float bias = args.dt_bias[head];
  const bool has_value = lane < Of::kCols && first_col + lane < args.value_dim;
  Fetched<Of::kPieces> fetched[Of::kOwnTokens];
  // Own token `own` of the tile that begins at token `begin`.
  const auto fetch = [&](std::int64_t begin) {
#pragma unroll
    for (int own = 0; own < Of::kOwnTokens; ++own) {
      const std::int64_t token = begin + warp + own * Of::kWarps;
      if (token >= span.row_count) continue;
      Fetched<Of::kPieces>& to = fetched[own];
      if constexpr (kSteps > 0) {
#pragma unroll
        for (int p = 0; p < Of::kPieces; ++p) {
          const int dim = lane + 32 * p;
          to.q[p] = dim < dims ? widen(rows.q[token * args.q.stride + dim]) : 0.0f;
          to.k[p] = dim < dims ? widen(rows.k[token * args.k.stride + dim]) : 0.0f;
        }
      }
      to.v = has_value ? widen(rows.v[token * args.v.stride + lane]) : 0.0f;
      to.a = widen(rows.a[token * args.a.stride]);
      to.b = widen(rows.b[token * args.b.stride]);
    }
  };
  const auto make_ready = [&](std::int64_t begin) {
#pragma unroll
    for (int own = 0; own < Of::kOwnTokens; ++own) {
      const int slot = warp + own * Of::kWarps;
      const std::int64_t token = begin + slot;
      if (token >= span.row_count) continue;
      const Fetched<Of::kPieces>& from = fetched[own];
      float* const query = queries + slot * width;
      float* const key = keys + slot * width;
      if constexpr (kSteps > 0) {
        give_length([&](int p) { return from.q[p]; }, Of::kPieces, dims, width, args.scale,
                    args.epsilon, query);
        give_length([&](int p) { return from.k[p]; }, Of::kPieces, dims, width, 1.0f, args.epsilon,
                    key);
      } else {
        const T* const q = rows.q + token * args.q.stride + lane;
        const T* const k = rows.k + token * args.k.stride + lane;
        const int pieces = (width + 31) / 32;
        give_length([&](int p) { return widen(q[32 * p]); }, pieces, dims, width, args.scale,
                    args.epsilon, query);
        give_length([&](int p) { return widen(k[32 * p]); }, pieces, dims, width, 1.0f,
                    args.epsilon, key);
      }
      if (lane < Of::kCols) values[slot * Of::kCols + lane] = from.v;
      if (lane == 0) {
        gates[2 * slot] = expf(-rate * softplus(from.a + bias));
        gates[2 * slot + 1] = 1 / (1 + expf(-from.b));
      }
    }
  };

  fetch(0);
  for (std::int64_t begin = 0; begin < span.row_count; begin += Of::kTokens) {
    make_ready(begin);
    __syncthreads();
    fetch(begin + Of::kTokens);
    const auto count = static_cast<int>(smaller<std::int64_t>(Of::kTokens, span.row_count - begin));
#pragma unroll 1
    for (int slot = 0; slot < count; ++slot) {
      const float* const query = queries + slot * width + own_row;
      const float* const key = keys + slot * width + own_row;
      const float decay = gates[2 * slot];
      float sums[4] = {};
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        float k[4];
        load(key + step * kStepRows, k);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] += held.at(4 * step + i) * k[i];
      }
      const float known = decay * column_sum(sums);
      const float delta = gates[2 * slot + 1] * (values[slot * Of::kCols + own_col] - known);
      float seen[4] = {};
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        float k[4];
        float q[4];
        load(key + step * kStepRows, k);
        load(query + step * kStepRows, q);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float next = decay * held.at(4 * step + i) + delta * k[i];
          held.at(4 * step + i) = next;
          seen[i] += next * q[i];
        }
      }
      const float result = column_sum(seen);
      if (own_row == 0 && inside)
        narrow(result, rows.out[(begin + slot) * args.out.stride + own_col]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = step * kStepRows + own_row + i;
      if (inside && row < dims) state[row * args.value_dim] = held.at(4 * step + i);
    }
}

template <typename T, int kSteps>
void launch(const DeltaRuleKernelArgs& args, cudaStream_t stream) {
  using Of = Tiling<kSteps>;
  const std::int64_t steps =
      kSteps > 0 ? kSteps : (args.key_dim + kStepRows - 1) / std::int64_t{kStepRows};
  const std::int64_t splits = (args.value_dim + Of::kCols - 1) / Of::kCols;
  std::int64_t floats = Of::kTokens * (2 * steps * kStepRows + Of::kCols + 2);
  if (kSteps == 0) floats += 4 * steps * Of::kThreads;
  SACCADE_LAUNCH((delta_rule_kernel<T, kSteps>),
                 dim3(static_cast<unsigned>(args.span_count * args.heads * splits)),
                 dim3(Of::kThreads), static_cast<std::size_t>(floats) * sizeof(float), stream,
                 args);
}

template <typename T>
void launch_as(const DeltaRuleKernelArgs& args, cudaStream_t stream) {
  const std::int64_t steps = (args.key_dim + kStepRows - 1) / kStepRows;
  if (steps <= 2)
    launch<T, 2>(args, stream);
  else if (steps <= 4)
    launch<T, 4>(args, stream);
  else if (steps <= 8)
    launch<T, 8>(args, stream);
  else if (steps <= kMaxSteps)
    launch<T, kMaxSteps>(args, stream);
  else
    launch<T, 0>(args, stream);
}

}  // namespace

void launch_delta_rule(const DeltaRuleKernelArgs& args, cudaStream_t stream) {
  if (args.span_count == 0 || args.q.rows == 0) return;
  if (args.q.type == DType::kBf16)
    launch_as<Bf16>(args, stream);
  else
    launch_as<float>(args, stream);
}

}  // namespace saccade::cuda
