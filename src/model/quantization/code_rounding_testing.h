// Rounding by each of the instruction sets that this processor has, which tests hold to each other.
#pragma once

#include "model/quantization/code_rounding.h"

namespace saccade {

int rounding_ways();
// round_group() by one of them: 0 <= way < rounding_ways().
float round_group(std::span<const float> values, const CodeRounding& rounding,
                  std::span<std::int8_t> codes, int way);

}  // namespace saccade
