#include "engine/step/graph_rows.h"

#include <algorithm>

namespace saccade {

std::vector<std::int64_t> usual_graph_rows(std::int64_t most) {
  constexpr std::int64_t kMost = 256;
  std::vector<std::int64_t> sizes;
  for (std::int64_t rows = 1; rows <= std::min(most, kMost); rows += rows < 8 ? rows : 8)
    sizes.push_back(rows);
  if (most < kMost && most >= 1 && sizes.back() != most) sizes.push_back(most);
  return sizes;
}

std::int64_t graph_rows_of(const StepPlan& plan, std::span<const std::int64_t> sizes) {
  const auto decodes = [](const PlannedRows& rows) { return rows.count == 1 && rows.samples; };
  if (plan.rows.empty() || !std::ranges::all_of(plan.rows, decodes)) return 0;
  const auto found = std::ranges::lower_bound(sizes, static_cast<std::int64_t>(plan.rows.size()));
  return found == sizes.end() ? 0 : *found;
}

}  // namespace saccade
