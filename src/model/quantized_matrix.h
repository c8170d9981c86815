// A matrix that several tensors of a checkpoint make: small integers or 8-bit floats, and their
// scales. Checked against each other once, and dequantised block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/quantization.h"
#include "tensor/tensor.h"

namespace saccade {

// A tensor as its file has it. Not owned, not aligned.
struct StoredTensor {
  std::string_view dtype;  // "I32"
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Immutable; any thread.
class QuantizedMatrix {
 public:
  // The tensors of one module. `zeros` and `order` are empty for methods that have none.
  struct Parts {
    StoredTensor codes;   // qweight, or the weight itself
    StoredTensor scales;  // scales, weight_scale or weight_scale_inv
    StoredTensor zeros;   // qzeros
    StoredTensor order;   // g_idx: the group of each input
  };
  // kCorrupt names the tensor whose type, shape or values do not fit the others; kUnsupported one
  // of a type that is not read.
  static Result<QuantizedMatrix> create(const Quantization& quantization, const Parts& parts);

  std::int64_t out() const { return out_; }
  std::int64_t in() const { return in_; }

  // into: [out, in], kF32 (the products are exact for AWQ and GPTQ) or kBf16 (rounded to nearest).
  void dequantize(View into, ThreadPool& pool) const;

 private:
  struct Grid;  // scales and zeros as numbers
  QuantizedMatrix(const Quantization& quantization, const Parts& parts)
      : quantization_(quantization), parts_(parts) {}
  Result<void> check_integers();
  Result<void> check_order() const;
  Result<void> check_floats();
  Grid read_grid() const;
  // Rows [out_begin, out_end) and columns [in_begin, in_end) to `tile`, kTileIn apart.
  void read_tile(const Grid& grid, std::int64_t out_begin, std::int64_t out_end,
                 std::int64_t in_begin, std::int64_t in_end, float* tile) const;

  Quantization quantization_;
  Parts parts_;
  std::int64_t out_ = 0;
  std::int64_t in_ = 0;
  std::int64_t groups_ = 1;      // rows of the scales
  std::int64_t scale_cols_ = 1;  // columns of the scales
};

// A quantised matrix and the names of the tensors that it is made of.
struct QuantizedModule {
  QuantizedMatrix matrix;
  std::vector<std::string> tensors;
};

// Modules among `tensors`, by NAME.weight. Tensors that quantisers write beside them and that serve
// nothing here (scales of activations and of a quantised KV cache) are in `unused`.
struct QuantizedModules {
  std::map<std::string, QuantizedModule> modules;
  std::vector<std::string> unused;
};
Result<QuantizedModules> find_quantized(
    const Quantization& quantization,
    const std::map<std::string, StoredTensor, std::less<>>& tensors);

}  // namespace saccade
