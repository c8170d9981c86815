#include "engine/admission/memory_budget.h"

namespace saccade {
Result<std::int64_t> kv_bytes_of(double utilization, const DeviceMemory& use, std::int64_t least) {
  const auto share = static_cast<std::int64_t>(utilization * static_cast<double>(use.total));
  const std::int64_t taken = use.total - use.free;
  const std::int64_t wanted =
      use.scratch + use.images + use.sampling + use.adapters + use.graphs + use.lists;
  const std::int64_t left = share - taken - wanted;
  if (left >= least) return left;
  return fail(ErrorCode::kExhausted,
              "gpu_memory_utilization {} of the device's {:.2f} GiB is {:.2f} GiB; {:.2f} GiB are "
              "taken (weights, and other processes), and {:.2f} GiB are wanted besides "
              "(activations {:.2f}, images {:.2f}, logits and sampling {:.2f}, adapters {:.2f}, "
              "graphs {:.2f}, "
              "lists {:.2f}): {:.2f} GiB would be left for keys and values, {:.3f} GiB is the "
              "least. Raise it, free memory of the device, or lower max_num_batched_tokens, "
              "max_num_seqs or encoder_cache_bytes",
              utilization, gibibytes(use.total), gibibytes(share), gibibytes(taken),
              gibibytes(wanted), gibibytes(use.scratch), gibibytes(use.images),
              gibibytes(use.sampling), gibibytes(use.adapters), gibibytes(use.graphs),
              gibibytes(use.lists), gibibytes(left), gibibytes(least));
}

}  // namespace saccade
