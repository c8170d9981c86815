#include "benchmarks/kernels/roofs.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/clock.h"
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

__attribute__((target("amx-tile,amx-bf16"))) void multiply_add_amx(std::int64_t steps) {
  struct alignas(64) Config {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  _tile_loadconfig(&config);
  alignas(64) static const std::uint16_t zeros[16 * 32] = {};
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

#endif

// Reads a slice with 1 KiB of prefetch; what a perfect decode kernel would do with its weights.
std::uint64_t read_all(const std::byte* data, std::size_t bytes) {
  std::uint64_t sum[8] = {};
  for (std::size_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(data + i + 1024);
    std::uint64_t line[8];
    std::memcpy(line, data + i, 64);
    for (int word = 0; word < 8; ++word) sum[word] ^= line[word];
  }
  for (int word = 1; word < 8; ++word) sum[0] ^= sum[word];
  return sum[0];
}

}  // namespace

double measure_read_bytes(ThreadPool& pool) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  Buffer buffer = *allocate_host(kBytes);
  std::memset(buffer.data(), 1, kBytes);
  // Each run reads the next part of the gigabyte, as a decode step does: nothing is cached.
  const std::size_t part = kBytes / kRuns / 4096 * 4096;
  const std::size_t slice = part / static_cast<std::size_t>(pool.size()) / 64 * 64;
  std::vector<std::byte*> next;
  for (int worker = 0; worker < pool.size(); ++worker)
    next.push_back(buffer.data() + slice * static_cast<std::size_t>(worker));
  volatile std::uint64_t sink = 0;
  return best_rate(pool, static_cast<double>(slice), [&](int worker) {
    std::byte*& data = next[static_cast<std::size_t>(worker)];
    sink = read_all(data, slice);
    data += part;
  });
}

double measure_f32_flops(ThreadPool& pool, [[maybe_unused]] cpu::Isa isa) {
  const double steps = static_cast<double>(kSteps) * kChains;
#if defined(__x86_64__)
  if (isa >= cpu::Isa::kAvx512)
    return best_rate(pool, steps * 16 * 2, [](int) { multiply_add_avx512(); });
  if (isa == cpu::Isa::kAvx2)
    return best_rate(pool, steps * 8 * 2, [](int) { multiply_add_avx2(); });
#endif
  return best_rate(pool, steps * 4 * 2, [](int) { multiply_add_portable(); });
}

double measure_bf16_flops([[maybe_unused]] ThreadPool& pool, [[maybe_unused]] cpu::Isa isa) {
#if defined(__x86_64__)
  if (isa == cpu::Isa::kAmx) {
    constexpr std::int64_t kTileSteps = 50'000;
    return best_rate(pool, static_cast<double>(kTileSteps) * 4 * (16 * 16 * 32 * 2),
                     [](int) { multiply_add_amx(kTileSteps); });
  }
#endif
  return 0;
}

}  // namespace saccade
