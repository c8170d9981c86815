// The files *.dummies, one behind the other, as bytes of the program.
#pragma once

#include <string_view>

namespace saccade {

std::string_view dummy_text();

}  // namespace saccade
