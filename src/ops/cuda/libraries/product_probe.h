// Runs products by one weight in memory of its own, to see what bits a library's algorithms give
// and how long they take, beside the device's own kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/cuda/libraries/product_table.h"

namespace saccade::cuda {

// The product by the own kernel; `bias` is the product's. What is added goes through no activation
// there: nobody asks for both.
void multiply_ourselves(const Product& product, const CodedRows* codes, const float* bias,
                        cudaStream_t stream);

// One thread, on the device that is selected. All arguments outlive it.
class ProductProbe {
 public:
  // Products with the weight, scales, epilogue and type of result of `by`; `codes`: the weight's,
  // of E4M3. Makes an x of kMaxProbedRows rows.
  ProductProbe(Runtime& runtime, ProductLibrary& library, const Product& by, const CodedRows* codes,
               cudaStream_t stream);

  // Without it nothing below may be called.
  bool has_memory() const;
  std::int64_t max_rows() const { return sizes_.y.rows; }
  // At most `most` for products of `count` rows, the library's best first.
  std::vector<ProductAlgorithm> algorithms(std::int64_t count, int most);
  // See RunProduct and TimeProduct.
  std::optional<ProductBits> run(std::int64_t first, std::int64_t count,
                                 std::span<const std::int64_t> rows,
                                 const ProductAlgorithm* algorithm);
  // Calls are queued one behind another, after one round that counts for nothing; the best of
  // three rounds.
  double time(std::int64_t count, const ProductAlgorithm* algorithm);

 private:
  class Room {
   public:
    Room(Runtime& runtime, std::size_t bytes, bool pinned);
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    std::byte* get() const { return data_; }

   private:
    Runtime& runtime_;
    bool pinned_;
    std::byte* data_;  // null: there was no memory
  };
  struct Sizes {
    Sizes(const Product& by, const CodedRows* codes);
    Rows x;
    Rows y;
    // Of rows that are rounded: their codes, and scales behind them.
    std::int64_t codes_bytes;
    std::int64_t scales_bytes;
    std::int64_t bias_bytes;  // in f32; in bf16 behind it
    std::size_t row_bytes;    // of y
  };
  bool biased() const { return by_.epilogue != Epilogue::kNone; }
  void make_bias(std::int64_t at, DType type);
  // Of rows [first, first + count) of x.
  Product product_of(std::int64_t first, std::int64_t count);
  // False: the algorithm does not do that. Null: the own kernel.
  bool multiply(const Product& product, const ProductAlgorithm* algorithm);
  // Queues copies of y's rows to `to`; what is behind them.
  std::byte* look(std::span<const std::int64_t> rows, std::byte* to);

  Runtime& runtime_;
  ProductLibrary& library_;
  const Product by_;
  const CodedRows* const codes_;
  cudaStream_t stream_;
  Sizes sizes_;
  Room x_;
  Room y_;
  Room c_;
  Room workspace_;
  Room rounded_;
  Room bias_;
  Room seen_;
};

}  // namespace saccade::cuda
