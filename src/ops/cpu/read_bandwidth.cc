#include "ops/cpu/read_bandwidth.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "tensor/tensor.h"

namespace saccade::cpu {
namespace {

constexpr std::size_t kRuns = 60;

using Four = float __attribute__((vector_size(16)));

// Reads a slice with 1 KiB of prefetch; what a perfect decode kernel would do with its weights.
float read_all(const std::byte* data, std::size_t bytes) {
  Four sum[4] = {};
  for (std::size_t i = 0; i + 64 <= bytes; i += 64) {
    __builtin_prefetch(data + i + 1024);
    const auto* line = reinterpret_cast<const Four*>(data + i);
    sum[0] += line[0];
    sum[1] += line[1];
    sum[2] += line[2];
    sum[3] += line[3];
  }
  const Four all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  return all[0] + all[1] + all[2] + all[3];
}

}  // namespace

Result<double> measure_read_bandwidth(ThreadPool& pool, std::size_t bytes) {
  TRY(Buffer buffer, allocate_host(bytes));
  const auto threads = static_cast<std::size_t>(pool.size());
  pool.run([&](int worker) {
    const std::size_t share = bytes / threads;
    std::memset(buffer.data() + share * static_cast<std::size_t>(worker), 0, share);
  });
  const std::size_t part = bytes / kRuns / 4096 * 4096;
  const std::size_t slice = part / threads / 64 * 64;
  const SteadyClock clock;
  volatile float sink = 0;
  double best = 0;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const Nanos start = clock.now();
    pool.run([&](int worker) {
      sink = read_all(buffer.data() + run * part + slice * static_cast<std::size_t>(worker), slice);
    });
    best = std::max(best, static_cast<double>(slice * threads) / seconds(clock.now() - start));
  }
  return best;
}

}  // namespace saccade::cpu
