// --quantization: how the operator says that the weights are stored, or that they be rounded.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "model/families.h"
#include "ops/device.h"

namespace saccade::serve {

// The only reader of the flag: `asked`, "" where it is not given. int8 and int4 round the text's
// layers of any checkpoint at load, which the options then say; all else names what the checkpoint
// is. kInvalid where its config.json says something else, kUnsupported for methods that are not
// read; both say what to do instead.
Result<void> choose_quantization(std::string_view asked, const json::object& config,
                                 LoadOptions& options);

// What plain int8 and int4 round besides the text's layers because answers come faster: the head,
// to int8, and before int4 activations. Nothing with `weight_only`, of a device that is no CPU, or
// where neither was asked for. Returns the line that says so, what it costs and what it gains; ""
// where nothing was chosen.
std::string choose_fastest(const Device& device, LoadOptions& options);

// What a GGUF without int8 or int4 becomes because answers come faster: its blocks stay small, in
// int8 or four bits, and activations before them become int8, as they do in llama.cpp. Not with
// `weight_only` or `dequantize`, nor of a device that is no CPU.
void keep_blocks_small(const Device& device, LoadOptions& options);

}  // namespace saccade::serve
