// Codes to rows of bf16. A block takes a span of one output: threads fetch 16 bytes of codes, which
// lie as mma's lanes want them, and put their numbers into shared memory where x has these inputs;
// from there rows leave 16 bytes a thread, neighbours beside each other. Every byte of codes is
// read once and every byte of numbers written once: the kernel's roof.
#include "ops/cuda/codes/code_forms.h"
#include "ops/cuda/codes/dequantize_codes.h"

namespace saccade::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kSteps = kCodeChunk / 16;
constexpr int kItemWords = 4;    // that a thread fetches at once
constexpr int kSpanChunks = 64;  // of 4,096 inputs, where they are in x's order
// In shared memory: threads that put the inputs of eight chunks there meet no bank twice.
constexpr int kChunkStride = kCodeChunk + 8;

// Where column `col` of a span lies in shared memory.
SACCADE_DEVICE int place_of(int col) { return col / kCodeChunk * kChunkStride + col % kCodeChunk; }

// The grid of an output as a thread walks along its inputs.
template <typename Form>
struct GroupWalk {
  const CodedRows& weight;
  std::int64_t out;
  int group;
  int left;  // steps of it
  float scale;
  std::uint32_t zero = 0;

  SACCADE_DEVICE GroupWalk(const CodedRows& of, std::int64_t output, int step)
      : weight(of),
        out(output),
        group(step / of.group_steps),
        left(of.group_steps - step % of.group_steps) {
    take();
  }
  SACCADE_DEVICE void take() {
    // Places behind the last input are in no group.
    const std::int64_t at = smaller<std::int64_t>(group, weight.groups - 1) * weight.rows + out;
    scale = weight.scales[at];
    if constexpr (Form::kZeros) zero = Form::pair_of_zero(weight.zeros[at]);
  }
  SACCADE_DEVICE void next() {
    if (--left > 0) return;
    ++group;
    left = weight.group_steps;
    take();
  }
};

template <typename Form, bool kOrdered>
__global__ void __launch_bounds__(kThreads)
    dequantize_codes_kernel(DequantizeCodesArgs args, int span, int spans) {
  SACCADE_DYNAMIC_SHARED(Bf16, shared);
  constexpr int kItems = Form::kChunkBytes / 16;     // of a chunk
  constexpr int kQuads = kItemWords / Form::kWords;  // of an item
  const CodedRows& weight = args.weight;
  const std::int64_t row = blockIdx.x / spans;
  const std::int64_t out = args.first + row;
  const auto cols = static_cast<int>(weight.cols);
  const int first = static_cast<int>(blockIdx.x % spans) * span;
  const int chunks = smaller(span, (cols + kCodeChunk - 1) / kCodeChunk - first);
  const std::byte* const codes =
      weight.codes + out * weight.stride + std::int64_t{first} * Form::kChunkBytes;
  // Both halves of a pair: inputs `col` and the next.
  const auto put = [&](int col, std::uint32_t pair, float scale) {
    Pack<2, Bf16> numbers;
    narrow(float_of(pair << 16) * scale, numbers.values[0]);
    narrow(float_of(pair & 0xffff0000U) * scale, numbers.values[1]);
    if (col >= cols) numbers.values[0] = Bf16{0};
    if (col + 1 >= cols) numbers.values[1] = Bf16{0};
    if constexpr (kOrdered) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        shared[place_of(col + i < cols ? weight.order[col + i] : col + i)] = numbers.values[i];
    } else {
      *reinterpret_cast<Pack<2, Bf16>*>(shared + place_of(col - first * kCodeChunk)) = numbers;
    }
  };
  for (int item = static_cast<int>(threadIdx.x); item < chunks * kItems; item += kThreads) {
    const auto pack =
        *reinterpret_cast<const Pack<kItemWords, std::uint32_t>*>(codes + std::int64_t{item} * 16);
    const int chunk = first + item / kItems;
    GroupWalk<Form> walk(weight, out, chunk * kSteps);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        std::uint32_t words[Form::kWords];
#pragma unroll
        for (int i = 0; i < Form::kWords; ++i) words[i] = pack.values[q * Form::kWords + i];
        std::uint32_t pairs[2];
        Form::widen(words, k, walk.zero, pairs);
        const int col = chunk * kCodeChunk + k * 16 + (item % kItems * kQuads + q) * 2;
        put(col, pairs[0], walk.scale);
        put(col + 8, pairs[1], walk.scale);
      }
      walk.next();
    }
  }
  __syncthreads();
  Bf16* const to =
      static_cast<Bf16*>(args.to.data) + row * args.to.stride + std::int64_t{first} * kCodeChunk;
  const int packs = smaller(chunks * kCodeChunk, cols - first * kCodeChunk + 7) / 8;
  for (int pack = static_cast<int>(threadIdx.x); pack < packs; pack += kThreads)
    *reinterpret_cast<Pack<4, std::uint32_t>*>(to + pack * 8) =
        *reinterpret_cast<const Pack<4, std::uint32_t>*>(shared + place_of(pack * 8));
}

template <typename Form, bool kOrdered>
void launch_form(const DequantizeCodesArgs& args, cudaStream_t stream) {
  const auto chunks = static_cast<int>((args.weight.cols + kCodeChunk - 1) / kCodeChunk);
  const int span = kOrdered || chunks < kSpanChunks ? chunks : kSpanChunks;
  const int spans = (chunks + span - 1) / span;
  SACCADE_LAUNCH((dequantize_codes_kernel<Form, kOrdered>),
                 dim3(static_cast<unsigned>(args.to.rows * spans)), dim3(kThreads),
                 static_cast<std::size_t>(span) * kChunkStride * sizeof(Bf16), stream, args, span,
                 spans);
}

}  // namespace

void launch_dequantize_codes(const DequantizeCodesArgs& args, cudaStream_t stream) {
  if (args.to.rows == 0 || args.weight.cols == 0) return;
  const bool ordered = args.weight.order != nullptr;
  if (args.weight.form == CodeForm::kE4m3)
    ordered ? launch_form<E4m3Form, true>(args, stream)
            : launch_form<E4m3Form, false>(args, stream);
  else
    ordered ? launch_form<NibbleForm, true>(args, stream)
            : launch_form<NibbleForm, false>(args, stream);
}

}  // namespace saccade::cuda
