// Mixture of experts: the rows of an expert are gathered and multiplied together, so that its
// weights are read once whatever the batch.
#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_device.h"
#include "ops/shapes.h"

namespace saccade::cpu {

void CpuStream::experts(const ExpertsArgs& args) {
  check_shapes(args);
  if (!args.add) {
    each_row(args.y.rows(), args.y.cols(),
             [&](std::int64_t row) { std::fill_n(args.y.row<float>(row), args.y.cols(), 0.0f); });
  }
  if (args.x.rows() == 0) return;
  ExpertRoutes& routes = device_.routes_;
  routes.plan(args.logits, args.per_row, args.normalise, pool_);
  // A row gains its terms in the order of the experts, whichever rows are beside it.
  for (std::size_t expert = 0; expert < args.experts.size(); ++expert) {
    const std::span<const ExpertRoutes::Visit> visits = routes.of(expert);
    if (!visits.empty()) run_expert(args, args.experts[expert], visits);
  }
}

void CpuStream::run_expert(const ExpertsArgs& args, const ExpertWeights& weights,
                           std::span<const ExpertRoutes::Visit> visits) {
  const std::int64_t rows = std::ssize(visits);
  const View gathered = args.gathered.row_range(0, rows);
  const View part = args.part.row_range(0, rows);
  const auto visit = [&](std::int64_t row) { return visits[static_cast<std::size_t>(row)]; };

  each_row(rows, gathered.cols(), [&](std::int64_t row) {
    std::memcpy(gathered.row<float>(row), args.x.row<float>(visit(row).row),
                static_cast<std::size_t>(gathered.cols()) * sizeof(float));
  });
  mlp({.x = gathered,
       .in = weights.gate_up,
       .in_bias = {},
       .activation = args.activation,
       .out = weights.down,
       .out_bias = {},
       .residual = {},
       .inner = args.inner.row_range(0, rows),
       .y = part});
  each_row(rows, part.cols(), [&](std::int64_t row) {
    kernels_.add_row(part.row<float>(row), visit(row).weight, args.y.row<float>(visit(row).row),
                     part.cols());
  });
}

}  // namespace saccade::cpu
