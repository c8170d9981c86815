// The pool under each policy as an SVG: where its bytes were on average, and useful bytes over the
// replay.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/replay.h"

namespace saccade {

// `policies`: a name and its replay each, at least one. Colours are told apart in print and by the
// colour-blind; text is escaped.
std::string plot_replays(const std::string& title,
                         const std::vector<std::pair<std::string, ReplayReport>>& policies);

}  // namespace saccade
