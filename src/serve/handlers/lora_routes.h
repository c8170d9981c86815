// vLLM's routes that change which adapters there are: /v1/load_lora_adapter and
// /v1/unload_lora_adapter.
#pragma once

#include "serve/lora_adapters.h"
#include "serve/router.h"

namespace saccade::serve {

// Before the router's first handle(). `adapters` outlives it.
void add_lora_routes(Router& router, LoraAdapters& adapters);

}  // namespace saccade::serve
