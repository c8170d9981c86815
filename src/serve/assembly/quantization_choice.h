// --quantization: how the operator says that the weights are stored, or that they be rounded.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace saccade::serve {

// The method that any checkpoint takes: its text's layers become bytes while they are loaded.
inline constexpr std::string_view kRoundToBytes = "int8";
// The same with codes of four bits in groups of inputs.
inline constexpr std::string_view kRoundToFourBits = "int4";

// `asked` is the flag, "" where it is not given. kInvalid where the checkpoint's config.json says
// something else, kUnsupported for methods that are not read; both say what to do instead.
Result<void> check_quantization(std::string_view asked, const json::object& config);

}  // namespace saccade::serve
