// To how many rows a step of decode is padded, so that steps of one size are alike and a device can
// make one launch of them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/step/step_plan.h"

namespace saccade {

// 1, 2, 4, 8 and then every 8th up to 256, no more than `most`, and `most` itself if it is below.
std::vector<std::int64_t> usual_graph_rows(std::int64_t most);

// The least of `sizes` (ascending) that the step's rows fit into; 0: it is not padded. Steps are
// whose every sequence has one row, which gives a token.
std::int64_t graph_rows_of(const StepPlan& plan, std::span<const std::int64_t> sizes);

}  // namespace saccade
