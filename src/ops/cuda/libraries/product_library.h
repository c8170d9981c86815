// Products by a library that is opened at run time, behind what the device needs of one; and a
// table of who multiplies what: the library's algorithms, each pinned for a class of row counts, or
// the device's own kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/cuda/kernels.h"
#include "tensor/tensor.h"

namespace saccade::cuda {

inline std::size_t bytes_of(const Rows& rows) {
  return static_cast<std::size_t>(rows.rows * rows.stride) * size_of(rows.type);
}

// What products of E4M3 are multiplied by: a scale a row of x and a row of the weight; or with
// `blocks`, whose sums are of 128 columns each, those of x as [blocks, rows] and the weight's, one
// for 128 x 128, as [ceil(out / 128), blocks and what is lacking to a multiple of 4]. 16-byte
// aligned.
struct ProductScales {
  const float* x = nullptr;  // of bf16: none
  const float* weight = nullptr;
  bool blocks = false;
};
constexpr std::int64_t kScaleBlock = 128;

// What becomes of a sum before it is rounded.
enum class Epilogue : std::uint8_t {
  kNone,
  kBias,      // the bias is added
  kBiasGelu,  // and it is gone through kGeluTanh
};

// y = x w^T, or with c y = x w^T + c, and what `epilogue` makes of that, rounded once. x and w
// bf16, or E4M3 with scales; y bf16 or f32, c of y's type and shape. All begin 16-byte aligned, and
// so does each of their rows.
struct Product {
  Rows x;       // [rows, in]
  Rows weight;  // [out, in]
  Rows c;       // absent, or [rows, out]
  Rows y;       // [rows, out]
  ProductScales scales = {};
  Epilogue epilogue = Epilogue::kNone;  // others with y of bf16 only
  const std::byte* bias = nullptr;      // bf16 [out], of an epilogue with one
};

// What the library wants to be given again.
struct ProductAlgorithm {
  std::array<std::uint64_t, 8> data = {};
  std::size_t workspace = 0;  // bytes

  bool operator==(const ProductAlgorithm&) const = default;
};

// One thread calls.
class ProductLibrary {
 public:
  static constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // that algorithms may want
  virtual ~ProductLibrary() = default;

  virtual std::string description() const = 0;  // "cuBLASLt 13.1.2 (/usr/local/...)"
  // For products of these shapes and types, whatever their addresses; the fastest first, by its
  // own reckoning. None that divides a sum among blocks, but into a number of pieces that is the
  // algorithm's.
  virtual std::vector<ProductAlgorithm> algorithms(const Product& like, int most) = 0;
  // Into the stream. False: this algorithm does not do this product, and nothing was submitted.
  virtual bool multiply(const Product& product, const ProductAlgorithm& algorithm,
                        std::byte* workspace, cudaStream_t stream) = 0;
};

}  // namespace saccade::cuda
