// Chat templates that a family knows by heart and that its checkpoints of random weights are
// written with.
#pragma once

#include <string_view>

namespace saccade {

extern const std::string_view kGemma3Template;
extern const std::string_view kSmolVlm2Template;

}  // namespace saccade
