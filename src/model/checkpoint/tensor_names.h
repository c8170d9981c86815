// Names of tensors in a file, and those that families know them by.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/checkpoint/weights.h"

namespace saccade {

std::string canonical_name(std::string_view name, std::span<const NameAlias> aliases);

}  // namespace saccade
