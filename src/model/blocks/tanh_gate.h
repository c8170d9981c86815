// A gate of one learnt number: what a branch adds is scaled by its tanh (Flamingo,
// arXiv:2204.14198).
#pragma once

#include <string>

#include "model/checkpoint/weight_table.h"

namespace saccade {

// `name` is the tensor's whole name: [1]. `into` becomes its tanh.
void add_tanh_gate(WeightTable& table, float& into, const std::string& name);

}  // namespace saccade
