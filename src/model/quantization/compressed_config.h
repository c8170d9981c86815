// What config.json says of matrices that are stored as compressed-tensors has them: the other way
// round from quantization.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade {

// A matrix that is stored as integers, by the name of its module ("model.layers.0.mlp.down_proj").
struct CompressedModule {
  std::string name;
  std::int64_t group = 0;  // inputs that share a scale; 0: all of them
};

// The object of quantization_config. Of 4 bits: pack-quantized, symmetric, one of config_groups for
// each size of group; that of most modules is of "Linear", others name theirs. Of 8:
// int-quantized, a scale an output, activations rounded by token as they come. `left` are the
// modules that stay as they were.
std::string compressed_config(int bits, const std::vector<CompressedModule>& modules,
                              const std::vector<std::string>& left);

// config.json with it as its last member. kInvalid for a text that is no object.
Result<std::string> with_quantization_config(std::string_view config, std::string_view section);

}  // namespace saccade
