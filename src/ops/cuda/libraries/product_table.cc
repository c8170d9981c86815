#include "ops/cuda/libraries/product_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "ops/cuda/libraries/product_probe.h"

namespace saccade::cuda {
namespace {

constexpr int kCandidates = 4;  // of a class

// What the log calls products of a kind.
std::string described(const Product& by) {
  const std::string_view after = by.epilogue == Epilogue::kNone   ? ""
                                 : by.epilogue == Epilogue::kBias ? " with a bias"
                                                                  : " with a bias and GELU";
  return fmt::format("products of {} by {} in {} to {}{}", by.weight.rows, by.weight.cols,
                     name_of(by.weight.type), name_of(by.y.type), after);
}
// Who does what no algorithm does.
std::string_view otherwise(const Product& by) {
  return by.epilogue == Epilogue::kNone ? "the own kernel takes what is left"
                                        : "what is left is finished apart";
}

}  // namespace

std::optional<Product> product_by(const CodedRows& weight) {
  if (weight.form != CodeForm::kE4m3Rows) return std::nullopt;
  const bool blocks = weight.places.block == kScaleBlock;
  if (!blocks && (weight.places.block != 1 || weight.groups != 1)) return std::nullopt;
  Product product;
  product.weight = {const_cast<std::byte*>(weight.codes), DType::kE4m3, weight.rows, weight.cols,
                    weight.stride};
  product.scales = {.x = nullptr, .weight = weight.scales, .blocks = blocks};
  return product;
}

void set_rows(Product& product, const E4m3Rows& x, std::int64_t rows) {
  product.x = {x.codes, DType::kE4m3, rows, product.weight.cols, x.stride};
  product.scales.x = x.scales;
}

ProductTable::ProductTable(Runtime& runtime, std::unique_ptr<ProductLibrary> library,
                           bool batch_invariant)
    : runtime_(runtime), library_(std::move(library)), batch_invariant_(batch_invariant) {}

ProductTable::Shape ProductTable::shape_of(const Product& product) {
  const Rows& weight = product.weight;
  return {weight.rows,           weight.cols,    weight.stride,   weight.type,
          product.scales.blocks, product.y.type, product.epilogue};
}

void ProductTable::learn(const Rows& weight, cudaStream_t stream) {
  if (weight.type != DType::kBf16) return;
  Product by;
  by.weight = weight;
  learn(by, nullptr, stream);
}

void ProductTable::learn(const CodedRows& weight, cudaStream_t stream) {
  if (const auto product = product_by(weight)) learn(*product, &weight, stream);
}

void ProductTable::learn(Product by, const CodedRows* codes, cudaStream_t stream) {
  if (by.weight.rows == 0 || by.weight.cols == 0) return;
  const auto of = [&](DType y, Epilogue epilogue) {
    by.y.type = y;
    by.epilogue = epilogue;
    if (!choices_.contains(shape_of(by))) probe(by, codes, stream);
  };
  for (const DType y : {DType::kF32, DType::kBf16}) of(y, Epilogue::kNone);
  if (!serves(by)) return;
  for (const Epilogue epilogue : {Epilogue::kBias, Epilogue::kBiasGelu}) of(DType::kBf16, epilogue);
}

void ProductTable::probe(const Product& by, const CodedRows* codes, cudaStream_t stream) {
  ProductChoice& choice = choices_[shape_of(by)];
  ProductProbe probe(runtime_, *library_, by, codes, stream);
  if (!probe.has_memory()) {
    log::warning("{}: no memory to probe {}: {}", library_->description(), described(by),
                 otherwise(by));
    return;
  }
  runtime_.select();
  std::vector<std::vector<ProductAlgorithm>> candidates;
  for (const RowClass& rows : kRowClasses) {
    const std::int64_t count = std::min({rows.most, kMaxProbedRows, probe.max_rows()});
    candidates.push_back(count < rows.least ? std::vector<ProductAlgorithm>()
                                            : probe.algorithms(count, kCandidates));
  }
  if (std::ranges::all_of(candidates, [](const auto& offered) { return offered.empty(); })) {
    log::warning("{}: no algorithm for {}: {}", library_->description(), described(by),
                 otherwise(by));
    return;
  }
  const RunProduct run =
      [&](std::int64_t first, std::int64_t count, std::span<const std::int64_t> rows,
          const ProductAlgorithm* algorithm) { return probe.run(first, count, rows, algorithm); };
  const bool halved = by.y.type == DType::kBf16;  // behind the results, what is left of them
  const ProductNearness nearness = {by.y.type, by.weight.cols, by.weight.type, by.epilogue};
  const NearOwn near = [&](const ProductBits& theirs, const ProductBits& own) {
    const auto results = [&](const ProductBits& bits) {
      return std::span(bits).first(halved ? bits.size() / 2 : bits.size());
    };
    return theirs.size() == own.size() && near_own(nearness, results(theirs), results(own));
  };
  TimeProduct time;
  if (runtime_.keeps_time())
    time = [&](std::int64_t count, const ProductAlgorithm* algorithm) {
      return probe.time(count, algorithm);
    };
  std::vector<std::string> notes;
  choice = choose_products(candidates, probe.max_rows(), batch_invariant_, run, near, notes, time);
  for (const std::string& note : notes)
    log::warning("{}: {}: {}: {}", library_->description(), described(by), note, otherwise(by));
}

bool ProductTable::knows(const Rows& weight) const {
  Product by;
  by.weight = weight;
  by.y.type = DType::kF32;
  return choices_.contains(shape_of(by));
}

bool ProductTable::serves(const Product& product) const {
  const auto found = choices_.find(shape_of(product));
  return found != choices_.end() &&
         std::ranges::any_of(found->second, [](const auto& each) { return each.has_value(); });
}

const ProductAlgorithm* ProductTable::choose(const Product& product) const {
  const auto found = choices_.find(shape_of(product));
  if (found == choices_.end()) return nullptr;
  const auto& algorithm = found->second[row_class_of(product.y.rows)];
  return algorithm ? &*algorithm : nullptr;
}

void launch_library_product(const LibraryProductArgs& args, cudaStream_t stream) {
  const Product& product = args.product;
  ProductLibrary& library = args.table->library();
  if (library.multiply(product, args.algorithm, args.workspace, stream)) return;
  if (args.table->is_news(product.weight))
    log::warning("{} refuses a product of {} rows by {} x {}: the own kernel takes it, and others",
                 library.description(), product.x.rows, product.weight.rows, product.weight.cols);
  multiply_ourselves(product, product.scales.x != nullptr ? &args.codes : nullptr, args.bias,
                     stream);
}

}  // namespace saccade::cuda
