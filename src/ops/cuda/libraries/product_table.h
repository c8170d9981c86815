// Who multiplies what. For each shape of weight, and each class of row counts, an algorithm of the
// library that was seen to give a row the same bits wherever it stands and whoever is beside it, or
// the device's own kernel, which does by construction.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ops/cuda/libraries/product_library.h"
#include "ops/cuda/products/e4m3_kernels.h"
#include "ops/cuda/runtime.h"

namespace saccade::cuda {

// Counts of rows that share an algorithm: [least, most].
struct RowClass {
  std::int64_t least = 1;
  std::int64_t most = 1;
};
inline constexpr RowClass kRowClasses[] = {
    {1, 16}, {17, 64}, {65, 256}, {257, 1024}, {1025, std::int64_t{1} << 40}};
inline constexpr std::size_t kRowClassCount = std::size(kRowClasses);
inline constexpr std::int64_t kMaxProbedRows = 2048;
std::size_t row_class_of(std::int64_t rows);

// One for each class; absent: the device's own kernel.
using ProductChoice = std::array<std::optional<ProductAlgorithm>, kRowClassCount>;

// The bits of some rows of a product whose operand is rows [first, first + count) of one matrix,
// and what else shows how they were summed; without an algorithm by the own kernel. Nothing: it
// does not do that.
using ProductBits = std::vector<std::byte>;
using RunProduct = std::function<std::optional<ProductBits>(std::int64_t first, std::int64_t count,
                                                            std::span<const std::int64_t> rows,
                                                            const ProductAlgorithm* algorithm)>;

// Whether rows of a library's product are the same rows of the own kernel's, but for the order and
// the rounding of sums.
using NearOwn = std::function<bool(const ProductBits& theirs, const ProductBits& own)>;

// Seconds of a product of `count` rows; without an algorithm by the own kernel. Empty: times mean
// nothing here.
using TimeProduct = std::function<double(std::int64_t count, const ProductAlgorithm* algorithm)>;

// Chooses among `candidates` (of each class, best first) by what `run` gives. `max_rows`: that it
// can run at once. Default: in each class the first whose rows do not depend on their company and
// are `near` the own kernel's; the own kernel in the first class, which reads the weight once and
// does no more. Where `time` says that another one that will do, or the own kernel, is far quicker,
// it is that one: so far (kClearlyQuicker) that the next start finds the same. `batch_invariant`:
// besides, one row's bits are the same in all classes, and time does not count. `notes` gets a line
// for each class that has candidates and none that will do, or one that is not near.
ProductChoice choose_products(std::span<const std::vector<ProductAlgorithm>> candidates,
                              std::int64_t max_rows, bool batch_invariant, const RunProduct& run,
                              const NearOwn& near, std::vector<std::string>& notes,
                              const TimeProduct& time = {});
inline constexpr double kClearlyQuicker = 1.4;
// Of more rows a library is never far behind.
inline constexpr std::int64_t kMaxTimedRows = 256;
// So for results of `type`, which are sums over `in` products of a random x.
struct ProductNearness {
  DType type = DType::kBf16;
  std::int64_t in = 0;
  DType operands = DType::kBf16;
  Epilogue epilogue = Epilogue::kNone;
};
bool near_own(const ProductNearness& of, std::span<const std::byte> theirs,
              std::span<const std::byte> own);

class ProductTable {
 public:
  // `runtime` outlives it.
  ProductTable(Runtime& runtime, std::unique_ptr<ProductLibrary> library, bool batch_invariant);

  // Probes products by a weight of bf16, or of E4M3 if the library takes its scales, in both types
  // of result, those of bf16 with each epilogue; once for each of its shapes. Waits for the stream.
  void learn(const Rows& weight, cudaStream_t stream);
  void learn(const CodedRows& weight, cudaStream_t stream);
  // Whether weights of its shape were probed, whatever came of it.
  bool knows(const Rows& weight) const;
  bool batch_invariant() const { return batch_invariant_; }
  // Null: the device's own kernel.
  const ProductAlgorithm* choose(const Product& product) const;
  // Whether there is an algorithm for some number of rows.
  bool serves(const Product& product) const;
  ProductLibrary& library() { return *library_; }
  // Whether this is the first product with the weight that was refused after all: the log has one
  // line for it, not one a step.
  bool is_news(const Rows& refused) { return refused_.insert(refused.data).second; }

 private:
  // Out, in, stride, the operands' type, whether scales are a block's, the type of y, and what is
  // done to sums.
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, DType, bool, DType, Epilogue>;
  static Shape shape_of(const Product& product);
  // Of a product's weight and scales, whose `codes` it has where it is of E4M3.
  void learn(Product by, const CodedRows* codes, cudaStream_t stream);
  void probe(const Product& by, const CodedRows* codes, cudaStream_t stream);

  Runtime& runtime_;
  std::unique_ptr<ProductLibrary> library_;
  bool batch_invariant_;
  std::map<Shape, ProductChoice> choices_;
  std::set<const void*> refused_;  // weights
};

// Codes as a product's operand. Nothing: no library takes their scales.
std::optional<Product> product_by(const CodedRows& weight);
// And rows of x, rounded for them.
void set_rows(Product& product, const E4m3Rows& x, std::int64_t rows);

// A library's product as a launch: by the own kernel where the library refuses after all.
struct LibraryProductArgs {
  ProductTable* table = nullptr;
  ProductAlgorithm algorithm;
  Product product;
  std::byte* workspace = nullptr;
  CodedRows codes = {};         // the weight's, of E4M3
  const float* bias = nullptr;  // of an epilogue with one
};
void launch_library_product(const LibraryProductArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
