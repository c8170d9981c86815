// The head of a safetensors file that is written.
#pragma once

#include <map>
#include <span>
#include <string>

#include "model/checkpoint/safetensors.h"

namespace saccade {

// make_safetensors_header() for tensors of any type that the format names, their offsets as they
// are given.
std::string write_safetensors_header(std::span<const SafetensorsEntry> tensors,
                                     const std::map<std::string, std::string>& metadata);

}  // namespace saccade
