// Largest logit and log-sum-exp of rows as long as a vocabulary.
#include <cmath>
#include <cstring>

#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuStream::row_stats(View logits, View out) {
  check_row_stats_shapes(logits, out);
  // One row has work for several threads, so it is cut into parts; the cut depends on its length
  // alone, and parts are joined in order.
  constexpr std::int64_t kPart = 8192;
  const std::int64_t parts = (logits.cols() + kPart - 1) / kPart;
  auto* partial = shared_scratch().reserve<PartialStats>(logits.rows() * parts);
  pool_.parallel_for(logits.rows() * parts, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t col = item % parts * kPart;
      partial[item] = kernels_.stats_row(logits.row<float>(item / parts) + col,
                                         std::min(kPart, logits.cols() - col));
      partial[item].argmax += col;
    }
  });
  for (std::int64_t row = 0; row < logits.rows(); ++row) {
    const std::span<const PartialStats> mine(partial + row * parts,
                                             static_cast<std::size_t>(parts));
    PartialStats best = mine.front();
    for (const PartialStats& part : mine)
      if (part.max > best.max) best = part;
    double total = 0;
    for (const PartialStats& part : mine) {
      const double below =
          part.max < best.max
              ? std::exp(static_cast<double>(part.max) - static_cast<double>(best.max))
              : 1.0;
      total += static_cast<double>(part.sum_exp) * below;
    }
    const RowStats stats = {static_cast<std::int32_t>(best.argmax), best.max,
                            static_cast<float>(static_cast<double>(best.max) + std::log(total))};
    std::memcpy(out.row<std::uint8_t>(row), &stats, sizeof(stats));
  }
}

}  // namespace saccade::cpu
