// Tokens from logits, a row a worker.
#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuStream::sample(const SampleArgs& args) {
  check_shapes(args);
  pool_.parallel_each(
      static_cast<std::int64_t>(args.rows.size()), [&](std::int64_t item, int worker) {
        const auto i = static_cast<std::size_t>(item);
        const LogitsRow of = logits_row(args, i);
        TokenSampler& sampler = device_.samplers_[static_cast<std::size_t>(worker)];
        keep_sampled(args, i, sampler.pick(of.logits, of.stats, args.rows[i], of.alternatives));
      });
}

}  // namespace saccade::cpu
