// What a kernel's source may use, under nvcc and under the host's compiler alike: the device's
// words, bf16 and f16 by bits, loads and stores of up to 16 bytes, cp.async, ldmatrix and mma.sync.
// Compiled by nvcc they are the instructions; compiled by g++ they are those of emulator.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ops/cuda/kernels.h"
#include "tensor/dtype.h"

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ops/cuda/launch.h"

#define SACCADE_DEVICE __device__ __forceinline__
#define SACCADE_OUT_OF_LINE static __device__ __noinline__
// A named array of the block, and the block's dynamic shared memory.
#define SACCADE_SHARED(type, name, count) __shared__ type name[count]
#define SACCADE_DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(128) unsigned char saccade_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(saccade_dynamic_shared)
#define SACCADE_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                     \
  do {                                                                                     \
    ::saccade::cuda::allow_shared(reinterpret_cast<const void*>(&kernel), (shared_bytes)); \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__);                    \
    ::saccade::cuda::check_launch(#kernel);                                                \
  } while (false)

#else

#include <cstring>

#include "ops/cuda/emulator/emulated_stream.h"
#include "ops/cuda/emulator/emulator.h"

#define __global__
#define __launch_bounds__(...)
#define SACCADE_DEVICE inline
#define SACCADE_OUT_OF_LINE [[maybe_unused]] static
#define SACCADE_SHARED(type, name, count)     \
  static const char name##_tag = 0;           \
  type* const name = reinterpret_cast<type*>( \
      ::saccade::emulator::static_shared(&name##_tag, sizeof(type) * (count)))
#define SACCADE_DYNAMIC_SHARED(type, name) \
  type* const name = reinterpret_cast<type*>(::saccade::emulator::dynamic_shared())
// The arguments are copied now and the kernel runs when the stream comes to it, as on the device.
#define SACCADE_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                            \
  ::saccade::emulator::enqueue((stream), [saccade_grid = dim3(grid), saccade_block = dim3(block), \
                                          saccade_shared = std::size_t(shared_bytes),             \
                                          saccade_arguments = std::tuple(__VA_ARGS__)] {          \
    ::saccade::emulator::launch(#kernel, saccade_grid, saccade_block, saccade_shared,             \
                                [&] { std::apply(kernel, saccade_arguments); });                  \
  })
#define threadIdx ::saccade::emulator::thread_index
#define blockIdx ::saccade::emulator::block_index
#define blockDim ::saccade::emulator::block_extent
#define gridDim ::saccade::emulator::grid_extent

using dim3 = ::saccade::emulator::Dim3;

inline void __syncthreads(
    ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  ::saccade::emulator::block_barrier(where);
}
inline void __syncwarp(::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  ::saccade::emulator::warp_barrier(where);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, unsigned mask,
                  ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  return ::saccade::emulator::exchanged(value, ::saccade::emulator::lane() ^ mask,
                                        "__shfl_xor_sync", where);
}
template <typename T>
T __shfl_sync(unsigned, T value, unsigned from,
              ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  return ::saccade::emulator::exchanged(value, from, "__shfl_sync", where);
}
// Lane l gets what lane l - by has; the first `by` lanes keep their own.
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned by,
                 ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  const unsigned lane = ::saccade::emulator::lane();
  return ::saccade::emulator::exchanged(value, lane < by ? lane : lane - by, "__shfl_up_sync",
                                        where);
}
inline unsigned __ballot_sync(
    unsigned, bool vote, ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  const ::saccade::emulator::Exchange exchange(&vote, sizeof(vote), "__ballot_sync", where);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < ::saccade::emulator::kWarp; ++lane)
    votes |= (exchange.of(lane)[0] != std::byte{0} ? 1U : 0U) << lane;
  return votes;
}
inline bool __any_sync(unsigned mask, bool vote,
                       ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  return __ballot_sync(mask, vote, where) != 0;
}
inline bool __all_sync(unsigned mask, bool vote,
                       ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  return __ballot_sync(mask, !vote, where) == 0;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
// A thread runs alone until it meets a barrier: a plain access is as whole as the device's.
template <typename T>
T atomicAdd(T* to, T value) {
  const T old = *to;
  *to = old + value;
  return old;
}
template <typename T>
T atomicMax(T* to, T value) {
  const T old = *to;
  if (value > old) *to = value;
  return old;
}
template <typename T>
T atomicMin(T* to, T value) {
  const T old = *to;
  if (value < old) *to = value;
  return old;
}
template <typename T>
T atomicOr(T* to, T value) {
  const T old = *to;
  *to = old | value;
  return old;
}
inline void __threadfence() {}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }

#endif

namespace saccade::cuda {

constexpr unsigned kFullWarp = 0xffffffffU;

#ifdef __CUDACC__

SACCADE_DEVICE float float_of(unsigned bits) { return __uint_as_float(bits); }
SACCADE_DEVICE unsigned bits_of(float x) { return __float_as_uint(x); }
// 2^x, within 2^-22 of itself; below 2^-126: zero.
SACCADE_DEVICE float exp2_near(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
// Within 2^-22 of itself; by what is above 2^126: zero.
SACCADE_DEVICE float divide_near(float x, float by) { return __fdividef(x, by); }
// Rounded by themselves: neither becomes part of an fmaf().
SACCADE_DEVICE float add_apart(float a, float b) { return __fadd_rn(a, b); }
SACCADE_DEVICE float multiply_apart(float a, float b) { return __fmul_rn(a, b); }
SACCADE_DEVICE float widen(float x) { return x; }
SACCADE_DEVICE float widen(Bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
SACCADE_DEVICE float widen(F16 x) { return __half2float(__ushort_as_half(x.bits)); }
SACCADE_DEVICE void narrow(float x, float& to) { to = x; }
SACCADE_DEVICE void narrow(float x, Bf16& to) {
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
SACCADE_DEVICE void narrow(float x, F16& to) { to.bits = __half_as_ushort(__float2half_rn(x)); }

// 16 bytes from global to shared memory, of which those beyond `bytes` become zero.
SACCADE_DEVICE void async_copy(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(bytes)
               : "memory");
}
// All 16 of them, in one instruction where a number of bytes takes four more.
SACCADE_DEVICE void async_copy(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}
// Four bytes, or zero.
SACCADE_DEVICE void async_copy_word(void* to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(bytes)
               : "memory");
}
SACCADE_DEVICE void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
SACCADE_DEVICE void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
SACCADE_DEVICE void ldmatrix(std::uint32_t (&d)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
SACCADE_DEVICE void ldmatrix_transposed(std::uint32_t (&d)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
// Of two bf16 a word, each rounded to nearest.
SACCADE_DEVICE std::uint32_t pair_bits(__nv_bfloat162 pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
SACCADE_DEVICE __nv_bfloat162 pair_of(std::uint32_t bits) {
  return *reinterpret_cast<const __nv_bfloat162*>(&bits);
}
SACCADE_DEVICE std::uint32_t subtract_pairs(std::uint32_t a, std::uint32_t b) {
  return pair_bits(__hsub2(pair_of(a), pair_of(b)));
}
SACCADE_DEVICE std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
  return pair_bits(__hmul2(pair_of(a), pair_of(b)));
}
// d += a b: 16 x 8 x 16, bf16 with f32 sums.
SACCADE_DEVICE void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// d += a b: 16 x 8 x 32, signed bytes with exact sums.
SACCADE_DEVICE void mma(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                        const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

SACCADE_DEVICE float float_of(unsigned bits) { return std::bit_cast<float>(bits); }
SACCADE_DEVICE unsigned bits_of(float x) { return std::bit_cast<unsigned>(x); }
SACCADE_DEVICE float exp2_near(float x) {
  const float power = std::exp2(x);
  return power < std::numeric_limits<float>::min() ? 0.0f : power;
}
SACCADE_DEVICE float divide_near(float x, float by) {
  return std::abs(by) > 0x1.0p126f && !std::isnan(x) ? 0.0f : x / by;
}
SACCADE_DEVICE float add_apart(float a, float b) { return a + b; }
SACCADE_DEVICE float multiply_apart(float a, float b) { return a * b; }
SACCADE_DEVICE float widen(float x) { return x; }
SACCADE_DEVICE float widen(Bf16 x) { return to_float(x); }
SACCADE_DEVICE float widen(F16 x) { return to_float(x); }
SACCADE_DEVICE void narrow(float x, float& to) { to = x; }
SACCADE_DEVICE void narrow(float x, Bf16& to) { to = to_bf16(x); }
SACCADE_DEVICE void narrow(float x, F16& to) { to = to_f16(x); }
SACCADE_DEVICE void async_copy(
    void* to, const void* from, int bytes,
    ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  emulator::async_copy(to, from, static_cast<std::size_t>(bytes), 16, where);
}
SACCADE_DEVICE void async_copy_word(
    void* to, const void* from, int bytes,
    ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  emulator::async_copy(to, from, static_cast<std::size_t>(bytes), 4, where);
}
SACCADE_DEVICE void async_copy(
    void* to, const void* from,
    ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  emulator::async_copy(to, from, 16, 16, where);
}
SACCADE_DEVICE void async_commit() { emulator::async_commit(); }
template <int pending>
SACCADE_DEVICE void async_wait() {
  emulator::async_wait(pending);
}
SACCADE_DEVICE void ldmatrix(
    std::uint32_t (&d)[4], const void* row,
    ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  emulator::ldmatrix_x4(d, row, false, where);
}
SACCADE_DEVICE void ldmatrix_transposed(
    std::uint32_t (&d)[4], const void* row,
    ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  emulator::ldmatrix_x4(d, row, true, where);
}
template <typename Combine>
std::uint32_t combine_pairs(std::uint32_t a, std::uint32_t b, Combine combine) {
  const auto half = [&](int shift) {
    const float x = to_float(Bf16{static_cast<std::uint16_t>(a >> shift)});
    const float y = to_float(Bf16{static_cast<std::uint16_t>(b >> shift)});
    return std::uint32_t{to_bf16(combine(x, y)).bits} << shift;
  };
  return half(0) | half(16);
}
SACCADE_DEVICE std::uint32_t subtract_pairs(std::uint32_t a, std::uint32_t b) {
  return combine_pairs(a, b, [](float x, float y) { return x - y; });
}
SACCADE_DEVICE std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
  return combine_pairs(a, b, [](float x, float y) { return x * y; });
}
SACCADE_DEVICE void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                        ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  emulator::mma_16816(d, a, b, where);
}
SACCADE_DEVICE void mma(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                        const std::uint32_t (&b)[2],
                        ::saccade::emulator::Where where = ::saccade::emulator::Where::current()) {
  emulator::mma_16832(d, a, b, where);
}

#endif

// N neighbours. N > 1 wants both ends aligned (see aligned()): then they are 16-byte accesses.
template <int N, typename T>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T values[N];
};

template <int N, typename T>
SACCADE_DEVICE void load(const T* from, float (&to)[N]) {
  const Pack<N, T> pack = *reinterpret_cast<const Pack<N, T>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = widen(pack.values[i]);
}

template <int N, typename T>
SACCADE_DEVICE void store(const float (&from)[N], T* to) {
  Pack<N, T> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) narrow(from[i], pack.values[i]);
  *reinterpret_cast<Pack<N, T>*>(to) = pack;
}

// Whether rows of `rows` may be taken `pack` elements at a time. Absent ones may.
inline bool aligned(const Rows& rows, int pack) {
  return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && rows.cols % pack == 0 &&
         rows.stride % pack == 0;
}

SACCADE_DEVICE float warp_sum(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(kFullWarp, x, mask);
  return x;
}

SACCADE_DEVICE float warp_max(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const float other = __shfl_xor_sync(kFullWarp, x, mask);
    x = other > x ? other : x;
  }
  return x;
}

template <typename T>
SACCADE_DEVICE T smaller(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
SACCADE_DEVICE T larger(T a, T b) {
  return b > a ? b : a;
}

}  // namespace saccade::cuda
