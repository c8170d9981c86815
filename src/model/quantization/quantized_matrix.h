// Matrices that several tensors of a checkpoint make: small integers or 8-bit floats, and their
// scales. Found by their names and checked against each other, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/quantization/quantization.h"
#include "ops/formats/stored_matrix.h"

namespace saccade {

// A tensor as its file has it. Not owned, not aligned.
struct StoredTensor {
  std::string_view dtype;  // "I32"
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// The tensors of one module. Those that a method does not have are empty.
struct QuantizedParts {
  StoredTensor codes;             // qweight, weight_packed, or the weight itself
  StoredTensor scales;            // scales, weight_scale or weight_scale_inv
  StoredTensor zeros;             // qzeros, weight_zero_point
  StoredTensor order;             // g_idx, weight_g_idx: the group of each input
  StoredTensor shape = {};        // weight_shape: outputs and inputs
  StoredTensor input_scale = {};  // of rows of activations that become E4M3
};

// The matrix that they make, over the same bytes. kCorrupt names the tensor whose type, shape or
// values do not fit the others; kUnsupported one of a type that is not read.
Result<StoredMatrix> join_parts(const Quantization& quantization, const QuantizedParts& parts);

// A quantised matrix and the names of the tensors that it is made of.
struct QuantizedModule {
  StoredMatrix matrix;  // the first of `experts`, where there are some
  std::vector<std::string> tensors;
  std::vector<StoredMatrix> experts = {};  // all of a layer's, each [outputs, inputs]
};

// Modules among `tensors`, by NAME.weight; experts that are stacked in one tensor of E4M3, as
// transformers has them (NAME.experts.gate_up_proj and its _scale_inv), by its name. Tensors that
// quantisers write beside them and that serve nothing here (scales of activations and of a
// quantised KV cache) are in `unused`.
struct QuantizedModules {
  std::map<std::string, QuantizedModule> modules;
  std::vector<std::string> unused;
};
Result<QuantizedModules> find_quantized(
    const Quantization& quantization,
    const std::map<std::string, StoredTensor, std::less<>>& tensors);

}  // namespace saccade
