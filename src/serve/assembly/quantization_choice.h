// --quantization: how the operator says that the weights are stored, or that they be rounded.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "model/families.h"
#include "ops/device.h"
#include "serve/settings.h"

namespace saccade::serve {

// The method that any checkpoint takes: its text's layers become bytes while they are loaded.
inline constexpr std::string_view kRoundToBytes = "int8";
// The same with codes of four bits in groups of inputs.
inline constexpr std::string_view kRoundToFourBits = "int4";

// `asked` is the flag, "" where it is not given. kInvalid where the checkpoint's config.json says
// something else, kUnsupported for methods that are not read; both say what to do instead.
Result<void> check_quantization(std::string_view asked, const json::object& config);

// What plain int8 and int4 round besides the text's layers because answers come faster: the head,
// to bytes, and before int4 activations. Nothing with --weight-only, of a device that is no CPU, or
// where neither was asked for. Returns the line that says so, what it costs and what it gains; ""
// where nothing was chosen.
std::string choose_fastest(const ServeSettings& settings, const Device& device,
                           LoadOptions& options);

// What a GGUF without --quantization becomes because answers come faster: its blocks stay small, as
// bytes or codes of four bits, and activations before them become bytes, as they do in llama.cpp.
// Not with --weight-only or --dequantize, nor of a device that is no CPU.
void keep_blocks_small(const ServeSettings& settings, const Device& device, LoadOptions& options);

}  // namespace saccade::serve
