// The slow twins of causal_conv and delta_rule: sums in double precision, a column at a time.
#pragma once

#include "ops/device.h"

namespace saccade {

// Shapes have been checked; all views are f32 of the host.
void reference_causal_conv(const CausalConvArgs& args,
                           double (*activate)(Activation activation, double x));
void reference_delta_rule(const DeltaRuleArgs& args);

}  // namespace saccade
