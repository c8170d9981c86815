// Tensors in a file that a client has sent: torch.save's zip, or safetensors. Read and never run: a
// pickle is a tree of data (tensor/pickle.h), and all that is believed of it is checked against the
// bytes that are there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade {

struct FileTensor {
  std::string name;                 // of safetensors; empty: torch.save's one tensor
  std::string dtype;                // safetensors' name: "BF16"
  std::vector<std::int64_t> shape;  // outermost first
  std::string_view bytes;           // rows one behind the other; of the file
};

// torch.save of one tensor (PyTorch 1.6 and later), or a safetensors file. kInvalid for what is
// neither or contradicts itself; kUnsupported, by name, for other pickles, compressed entries and
// tensors whose rows do not lie one behind the other. The file outlives what is returned.
Result<std::vector<FileTensor>> read_tensor_file(std::string_view file);

}  // namespace saccade
