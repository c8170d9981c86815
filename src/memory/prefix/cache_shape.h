// A model's cache in a small file: what each layer keeps, without weights. With it the allocator
// can be asked about a model of any size on any machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "memory/layer_spec.h"

namespace saccade {

struct CacheShape {
  std::string name;
  std::string source;  // where the numbers come from
  std::vector<LayerSpec> layers;
  std::int64_t image_tokens = 0;  // of a usual image; 0: the model takes none
};

// {"name": ..., "source": ..., "dtype_bytes": 2, "image_tokens": 256, "layers": [
//   {"kind": "full" | "cross_attention", "count": 10, "kv_heads": 16, "head_dim": 128},
//   {"kind": "sliding_window", "window": 1024, "count": 52, "kv_heads": 16, "head_dim": 128},
//   {"kind": "state", "count": 28, "state_bytes": 327680},
//   {"kind": "vision_embedding", "hidden": 3584}]}
// kInvalid names the member and the limit.
Result<CacheShape> parse_cache_shape(const json::value& parsed);
Result<CacheShape> read_cache_shape(const std::string& path);

}  // namespace saccade
