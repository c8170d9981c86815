// What llama.cpp's server calls things, for those who come from there.
#pragma once

#include <string_view>

namespace saccade {

// What to do instead of a flag of llama-server's that `serve` has not ("-c", "--ctx-size"); empty
// for any other word.
std::string_view instead_of_llama_server_flag(std::string_view flag);

}  // namespace saccade
