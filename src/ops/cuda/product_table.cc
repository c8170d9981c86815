#include "ops/cuda/product_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "ops/cuda/make_numbers.h"

namespace saccade::cuda {
namespace {

constexpr int kCandidates = 4;  // of a class
constexpr std::size_t kProbeBytes = std::size_t{512} << 20;

// Memory of a probe.
class Room {
 public:
  Room(Runtime& runtime, std::size_t bytes, bool pinned)
      : runtime_(runtime),
        pinned_(pinned),
        data_(pinned ? runtime.allocate_pinned(bytes) : runtime.allocate(bytes)) {}
  ~Room() {
    if (data_ != nullptr) pinned_ ? runtime_.free_pinned(data_) : runtime_.free(data_);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  std::byte* get() const { return data_; }

 private:
  Runtime& runtime_;
  bool pinned_;
  std::byte* data_;
};

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

std::size_t bytes_of(const Rows& rows) {
  return static_cast<std::size_t>(rows.rows * rows.stride) * size_of(rows.type);
}

Rows first_rows(Rows rows, std::int64_t count) {
  rows.rows = count;
  return rows;
}

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

// The same by the own kernel; `bias` is the product's. What is added goes through no activation
// there: nobody asks for both.
void multiply_ourselves(const Product& product, const CodedRows* codes, const float* bias,
                        cudaStream_t stream) {
  const Activation activation =
      product.epilogue == Epilogue::kBiasGelu ? Activation::kGeluTanh : Activation::kNone;
  if (codes == nullptr) {
    launch_gemm({.x = product.x,
                 .weight = product.weight,
                 .bias = bias,
                 .activation = activation,
                 .residual = product.c,
                 .y = product.y},
                stream);
    return;
  }
  const E4m3Rows x = {.codes = static_cast<std::byte*>(product.x.data),
                      .stride = product.x.stride,
                      .scales = const_cast<float*>(product.scales.x),
                      .group_step = product.x.rows};
  launch_gemm_e4m3({.x = x,
                    .weight = *codes,
                    .bias = bias,
                    .activation = activation,
                    .residual = product.c,
                    .y = product.y},
                   stream);
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
  const Rows& weight = by.weight;
  const DType type = by.y.type;
  ProductChoice& choice = choices_[shape_of(by)];
  Rows x = {nullptr, DType::kBf16, kMostProbedRows, weight.cols, round_up(weight.cols, 8)};
  Rows y = {nullptr, type, kMostProbedRows, weight.rows, round_up(weight.rows, 8)};
  y.rows = std::min<std::int64_t>(
      y.rows, static_cast<std::int64_t>(kProbeBytes / (bytes_of(y) / kMostProbedRows)));
  const Room x_room(runtime_, bytes_of(x), false);
  const Room y_room(runtime_, bytes_of(y), false);
  const Room c_room(runtime_, bytes_of(y), false);
  const Room workspace(runtime_, ProductLibrary::kWorkspace, false);
  // Of rows that are rounded: their codes, and scales behind them.
  const std::int64_t codes_bytes = codes == nullptr ? 0 : kMostProbedRows * codes->stride;
  const std::int64_t scales_bytes = codes == nullptr ? 16 : kMostProbedRows * codes->groups * 4;
  const Room rounded_room(runtime_, static_cast<std::size_t>(codes_bytes + scales_bytes), false);
  // A bias in f32, and in bf16 behind it.
  const std::int64_t bias_bytes = round_up(weight.rows * 4, 256);
  const Room bias_room(runtime_, static_cast<std::size_t>(bias_bytes + weight.rows * 2), false);
  const auto row_bytes = static_cast<std::size_t>(y.cols) * size_of(type);
  const Room seen(runtime_, row_bytes * kMostProbedRows / 16, true);
  if (x_room.get() == nullptr || y_room.get() == nullptr || c_room.get() == nullptr ||
      workspace.get() == nullptr || rounded_room.get() == nullptr || bias_room.get() == nullptr ||
      seen.get() == nullptr) {
    log::warning("{}: no memory to probe {}: {}", library_->description(), described(by),
                 otherwise(by));
    return;
  }
  x.data = x_room.get();
  y.data = y_room.get();
  launch_make_numbers({.made = {1, 0, 1}, .row_step = x.cols, .to = x, .padded = x.stride}, stream);
  // Numbers that bf16 holds, as all that is made.
  const auto make_bias = [&](std::int64_t at, DType bias_type) {
    launch_make_numbers({.made = {2, 0, 1},
                         .to = {bias_room.get() + at, bias_type, 1, weight.rows, weight.rows},
                         .padded = weight.rows},
                        stream);
  };
  make_bias(0, DType::kF32);
  make_bias(bias_bytes, DType::kBf16);
  const bool biased = by.epilogue != Epilogue::kNone;
  const auto* const bias = biased ? reinterpret_cast<const float*>(bias_room.get()) : nullptr;

  // By rows [first, first + count) of x.
  const auto product_of = [&](std::int64_t first, std::int64_t count) {
    Product product = by;
    product.x = first_rows(x, count);
    product.x.data = x_room.get() + static_cast<std::size_t>(first * x.stride) * size_of(x.type);
    product.y = first_rows(y, count);
    if (biased) product.bias = bias_room.get() + bias_bytes;
    if (codes == nullptr) return product;
    const E4m3Rows rounded = {.codes = rounded_room.get(),
                              .stride = codes->stride,
                              .scales = reinterpret_cast<float*>(rounded_room.get() + codes_bytes),
                              .group_step = count};
    launch_round_e4m3({.x = product.x, .out = rounded, .group = group_of_inputs(*codes)}, stream);
    set_rows(product, rounded, count);
    return product;
  };
  const RunProduct run = [&](std::int64_t first, std::int64_t count,
                             std::span<const std::int64_t> rows,
                             const ProductAlgorithm* algorithm) -> std::optional<ProductBits> {
    // What an earlier run left is not this one's.
    runtime_.zero(y_room.get(), bytes_of(y), stream);
    Product product = product_of(first, count);
    const auto multiply = [&] {
      if (algorithm != nullptr)
        return library_->multiply(product, *algorithm, workspace.get(), stream);
      multiply_ourselves(product, codes, bias, stream);
      return true;
    };
    std::byte* to = seen.get();
    const auto look = [&] {
      for (const std::int64_t row : rows) {
        runtime_.copy(
            {.to = to,
             .to_stride = row_bytes,
             .from = y_room.get() + static_cast<std::size_t>(row * y.stride) * size_of(type),
             .from_stride = row_bytes,
             .row_bytes = row_bytes,
             .rows = 1},
            Direction::kToHost, stream);
        to += row_bytes;
      }
    };
    if (!multiply()) return std::nullopt;
    look();
    // Sums that differ seldom differ once they are rounded to bf16. What is left of them when that
    // is taken away does.
    if (type == DType::kBf16) {
      runtime_.zero(c_room.get(), bytes_of(y), stream);
      product.c = product.y;
      product.c.data = c_room.get();
      launch_add({.x = product.y, .y = product.c, .scale = -1}, stream);
      if (!multiply()) return std::nullopt;
      look();
    }
    runtime_.synchronize(stream);
    return ProductBits(seen.get(), to);
  };

  runtime_.select();
  std::vector<std::vector<ProductAlgorithm>> candidates;
  for (const RowClass& rows : kRowClasses) {
    const std::int64_t count = std::min({rows.most, kMostProbedRows, y.rows});
    candidates.push_back(count < rows.least
                             ? std::vector<ProductAlgorithm>()
                             : library_->algorithms(product_of(0, count), kCandidates));
  }
  if (std::ranges::all_of(candidates, [](const auto& offered) { return offered.empty(); })) {
    log::warning("{}: no algorithm for {}: {}", library_->description(), described(by),
                 otherwise(by));
    return;
  }
  const ProductNearness nearness = {type, weight.cols, weight.type, by.epilogue};
  const NearOwn near = [&](const ProductBits& theirs, const ProductBits& own) {
    const auto results = [&](const ProductBits& bits) {
      return std::span(bits).first(type == DType::kBf16 ? bits.size() / 2 : bits.size());
    };
    return theirs.size() == own.size() && near_own(nearness, results(theirs), results(own));
  };
  // Queued one behind another, after one that counts for nothing; the best of three rounds.
  const TimeProduct time = [&](std::int64_t count, const ProductAlgorithm* algorithm) {
    constexpr int kCalls = 5;
    const Product product = product_of(0, count);
    const SteadyClock clock;
    double least = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 4; ++round) {
      runtime_.synchronize(stream);
      const Nanos begin = clock.now();
      for (int call = 0; call < kCalls; ++call) {
        if (algorithm == nullptr)
          multiply_ourselves(product, codes, bias, stream);
        else if (!library_->multiply(product, *algorithm, workspace.get(), stream))
          return std::numeric_limits<double>::infinity();
      }
      runtime_.synchronize(stream);
      if (round > 0) least = std::min(least, seconds(clock.now() - begin) / kCalls);
    }
    return least;
  };
  std::vector<std::string> notes;
  choice = choose_products(candidates, y.rows, batch_invariant_, run, near, notes,
                           runtime_.keeps_time() ? time : TimeProduct());
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
