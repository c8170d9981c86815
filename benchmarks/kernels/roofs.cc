#include "benchmarks/kernels/roofs.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "ops/cpu/read_bandwidth.h"
#include "tensor/tensor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace saccade {
namespace {

// Runs of about a millisecond, so that some fall between the interruptions of a shared machine.
constexpr int kRuns = 60;

// Best rate of `amount` a thread over the runs of body(worker).
template <typename Body>
double best_rate(ThreadPool& pool, double amount, const Body& body) {
  const SteadyClock clock;
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const Nanos start = clock.now();
    pool.run(body);
    best = std::max(best, amount * pool.size() / seconds(clock.now() - start));
  }
  return best;
}

constexpr std::int64_t kSteps = 500'000;
constexpr std::int64_t kTileSteps = 50'000;
constexpr int kChains = 12;  // independent sums: more than latency x ports

#define SACCADE_TWELVE(step) \
  step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11)

using Four = float __attribute__((vector_size(16)));

void multiply_add_portable() {
  Four sum[kChains] = {};
  Four x = {1, 1, 1, 1};
  for (std::int64_t i = 0; i < kSteps; ++i) {
#if defined(__x86_64__)
#define SACCADE_STEP(n) asm volatile("addps %1, %0" : "+x"(sum[n]) : "x"(x * sum[n]));
#else
#define SACCADE_STEP(n) asm volatile("" : "+w"(sum[n] += x * sum[n]));
#endif
    SACCADE_TWELVE(SACCADE_STEP)
#undef SACCADE_STEP
  }
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) void multiply_add_avx2() {
  __m256 sum[kChains] = {};
  const __m256 x = _mm256_set1_ps(1);
  for (std::int64_t i = 0; i < kSteps; ++i) {
#define SACCADE_STEP(n) asm volatile("vfmadd231ps %1, %1, %0" : "+x"(sum[n]) : "x"(x));
    SACCADE_TWELVE(SACCADE_STEP)
#undef SACCADE_STEP
  }
}

__attribute__((target("avx512f"))) void multiply_add_avx512() {
  __m512 sum[kChains] = {};
  const __m512 x = _mm512_set1_ps(1);
  for (std::int64_t i = 0; i < kSteps; ++i) {
#define SACCADE_STEP(n) asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sum[n]) : "v"(x));
    SACCADE_TWELVE(SACCADE_STEP)
#undef SACCADE_STEP
  }
}

__attribute__((target("avx2,avxvnni"))) void multiply_add_avx_vnni() {
  __m256i sum[kChains] = {};
  const __m256i x = _mm256_set1_epi8(1);
  for (std::int64_t i = 0; i < kSteps; ++i) {
#define SACCADE_STEP(n) asm volatile("%{vex%} vpdpbusd %1, %1, %0" : "+x"(sum[n]) : "x"(x));
    SACCADE_TWELVE(SACCADE_STEP)
#undef SACCADE_STEP
  }
}

__attribute__((target("avx512f,avx512vnni"))) void multiply_add_vnni() {
  __m512i sum[kChains] = {};
  const __m512i x = _mm512_set1_epi8(1);
  for (std::int64_t i = 0; i < kSteps; ++i) {
#define SACCADE_STEP(n) asm volatile("vpdpbusd %1, %1, %0" : "+v"(sum[n]) : "v"(x));
    SACCADE_TWELVE(SACCADE_STEP)
#undef SACCADE_STEP
  }
}

__attribute__((target("avx512f,avx512bf16"))) void multiply_add_bf16() {
  __m512 sum[kChains] = {};
  const __m512i x = _mm512_set1_epi32(0x3f803f80);  // ones
  for (std::int64_t i = 0; i < kSteps; ++i) {
#define SACCADE_STEP(n) asm volatile("vdpbf16ps %1, %1, %0" : "+v"(sum[n]) : "v"(x));
    SACCADE_TWELVE(SACCADE_STEP)
#undef SACCADE_STEP
  }
}

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTiles;
constexpr std::size_t kTile = 1024;  // bytes

// Operands stay in tiles: what the unit itself can do.
__attribute__((target("amx-tile,amx-bf16"))) void multiply_add_amx(std::int64_t steps) {
  _tile_loadconfig(&kTiles);
  alignas(64) static const std::byte zeros[kTile] = {};
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, zeros, 64);
  _tile_loadd(5, zeros, 64);
  _tile_loadd(6, zeros, 64);
  _tile_loadd(7, zeros, 64);
  for (std::int64_t i = 0; i < steps; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

__attribute__((target("amx-tile,amx-int8"))) void multiply_add_amx_int8(std::int64_t steps) {
  _tile_loadconfig(&kTiles);
  alignas(64) static const std::byte zeros[kTile] = {};
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, zeros, 64);
  _tile_loadd(5, zeros, 64);
  _tile_loadd(6, zeros, 64);
  _tile_loadd(7, zeros, 64);
  for (std::int64_t i = 0; i < steps; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
}

// Operands come from `numbers` (32 tiles, the first-level cache) as in the best product of large
// matrices: four tiles read for four multiplied.
__attribute__((target("amx-tile,amx-bf16"))) void multiply_loaded_amx(const std::byte* numbers,
                                                                      std::int64_t steps) {
  _tile_loadconfig(&kTiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::byte* const at = numbers + static_cast<std::size_t>(i % 8) * 4 * kTile;
    _tile_loadd(4, at, 64);
    _tile_loadd(6, at + kTile, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, at + 2 * kTile, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, at + 3 * kTile, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

#endif

}  // namespace

double measure_read_bytes(ThreadPool& pool) {
  return *cpu::measure_read_bandwidth(pool, 1'500'000'000);
}

double measure_f32_flops(ThreadPool& pool, [[maybe_unused]] cpu::Isa isa) {
  const double steps = static_cast<double>(kSteps) * kChains;
#if defined(__x86_64__)
  if (isa >= cpu::Isa::kAvx512)
    return best_rate(pool, steps * 16 * 2, [](int) { multiply_add_avx512(); });
  if (isa >= cpu::Isa::kAvx2)
    return best_rate(pool, steps * 8 * 2, [](int) { multiply_add_avx2(); });
#endif
  return best_rate(pool, steps * 4 * 2, [](int) { multiply_add_portable(); });
}

double measure_bf16_flops([[maybe_unused]] ThreadPool& pool, [[maybe_unused]] cpu::Isa isa) {
#if defined(__x86_64__)
  if (isa == cpu::Isa::kBf16)
    return best_rate(pool, static_cast<double>(kSteps) * kChains * 32 * 2,
                     [](int) { multiply_add_bf16(); });
  if (isa == cpu::Isa::kAmx) {
    return best_rate(pool, static_cast<double>(kTileSteps) * 4 * (16 * 16 * 32 * 2),
                     [](int) { multiply_add_amx(kTileSteps); });
  }
#endif
  return 0;
}

double measure_loaded_bf16_flops([[maybe_unused]] ThreadPool& pool, [[maybe_unused]] cpu::Isa isa) {
#if defined(__x86_64__)
  if (isa == cpu::Isa::kAmx) {
    // Of either sign and about 1: so far from zeros that the unit draws its full power.
    Buffer buffer = *allocate_host(32 * kTile);
    Rng rng(1);
    for (std::size_t i = 0; i < 32 * kTile; i += 2) {
      const auto bits = static_cast<std::uint16_t>(0x3f00 + rng.below(256) + rng.below(2) * 0x8000);
      std::memcpy(buffer.data() + i, &bits, sizeof(bits));
    }
    const std::byte* const numbers = buffer.data();
    return best_rate(pool, static_cast<double>(kTileSteps) * 4 * (16 * 16 * 32 * 2),
                     [=](int) { multiply_loaded_amx(numbers, kTileSteps); });
  }
#endif
  return 0;
}

double measure_int8_ops([[maybe_unused]] ThreadPool& pool, [[maybe_unused]] cpu::Isa isa) {
#if defined(__x86_64__)
  if (isa == cpu::Isa::kAmx)
    return best_rate(pool, static_cast<double>(kTileSteps) * 4 * (16 * 16 * 64 * 2),
                     [](int) { multiply_add_amx_int8(kTileSteps); });
  if (isa == cpu::Isa::kAvxVnni)
    return best_rate(pool, static_cast<double>(kSteps) * kChains * 32 * 2,
                     [](int) { multiply_add_avx_vnni(); });
  if (isa >= cpu::Isa::kVnni)
    return best_rate(pool, static_cast<double>(kSteps) * kChains * 64 * 2,
                     [](int) { multiply_add_vnni(); });
#endif
  return 0;
}

}  // namespace saccade
