// Numbers as English words, as the Python package num2words writes them.
#pragma once

#include <cstdint>
#include <string>

namespace saccade {

// 0 to 999,999: "one thousand, two hundred and thirty-four".
std::string number_words(std::int64_t number);

}  // namespace saccade
