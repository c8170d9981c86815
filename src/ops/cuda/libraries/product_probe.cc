#include "ops/cuda/libraries/product_probe.h"

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "base/rounding.h"
#include "ops/cuda/rows/make_dummy_values.h"

namespace saccade::cuda {
namespace {

constexpr std::size_t kProbeBytes = std::size_t{512} << 20;

Rows first_rows(Rows rows, std::int64_t count) {
  rows.rows = count;
  return rows;
}

}  // namespace

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

ProductProbe::Room::Room(Runtime& runtime, std::size_t bytes, bool pinned)
    : runtime_(runtime),
      pinned_(pinned),
      data_(pinned ? runtime.allocate_pinned(bytes) : runtime.allocate(bytes)) {}

ProductProbe::Room::~Room() {
  if (data_ != nullptr) pinned_ ? runtime_.free_pinned(data_) : runtime_.free(data_);
}

ProductProbe::Sizes::Sizes(const Product& by, const CodedRows* codes)
    : x{nullptr, DType::kBf16, kMaxProbedRows, by.weight.cols, round_up(by.weight.cols, 8)},
      y{nullptr, by.y.type, kMaxProbedRows, by.weight.rows, round_up(by.weight.rows, 8)},
      codes_bytes(codes == nullptr ? 0 : kMaxProbedRows * codes->stride),
      scales_bytes(codes == nullptr ? 16 : kMaxProbedRows * codes->groups * 4),
      bias_bytes(round_up(by.weight.rows * 4, 256)),
      row_bytes(static_cast<std::size_t>(y.cols) * size_of(y.type)) {
  y.rows = std::min<std::int64_t>(
      y.rows, static_cast<std::int64_t>(kProbeBytes / (bytes_of(y) / kMaxProbedRows)));
}

ProductProbe::ProductProbe(Runtime& runtime, ProductLibrary& library, const Product& by,
                           const CodedRows* codes, cudaStream_t stream)
    : runtime_(runtime),
      library_(library),
      by_(by),
      codes_(codes),
      stream_(stream),
      sizes_(by, codes),
      x_(runtime, bytes_of(sizes_.x), false),
      y_(runtime, bytes_of(sizes_.y), false),
      c_(runtime, bytes_of(sizes_.y), false),
      workspace_(runtime, ProductLibrary::kWorkspace, false),
      rounded_(runtime, static_cast<std::size_t>(sizes_.codes_bytes + sizes_.scales_bytes), false),
      bias_(runtime, static_cast<std::size_t>(sizes_.bias_bytes + by.weight.rows * 2), false),
      seen_(runtime, sizes_.row_bytes * kMaxProbedRows / 16, true) {
  if (!has_memory()) return;
  sizes_.x.data = x_.get();
  sizes_.y.data = y_.get();
  const Rows& x = sizes_.x;
  launch_make_dummy_values({.made = {1, 0, 1}, .row_step = x.cols, .to = x, .padded = x.stride},
                           stream);
  make_bias(0, DType::kF32);
  make_bias(sizes_.bias_bytes, DType::kBf16);
}

bool ProductProbe::has_memory() const {
  return std::ranges::all_of(std::array{&x_, &y_, &c_, &workspace_, &rounded_, &bias_, &seen_},
                             [](const Room* room) { return room->get() != nullptr; });
}

// Numbers that bf16 holds, as all that is made.
void ProductProbe::make_bias(std::int64_t at, DType type) {
  const std::int64_t count = by_.weight.rows;
  launch_make_dummy_values(
      {.made = {2, 0, 1}, .to = {bias_.get() + at, type, 1, count, count}, .padded = count},
      stream_);
}

Product ProductProbe::product_of(std::int64_t first, std::int64_t count) {
  const Rows& x = sizes_.x;
  Product product = by_;
  product.x = first_rows(x, count);
  product.x.data = x_.get() + static_cast<std::size_t>(first * x.stride) * size_of(x.type);
  product.y = first_rows(sizes_.y, count);
  if (biased()) product.bias = bias_.get() + sizes_.bias_bytes;
  if (codes_ == nullptr) return product;
  const E4m3Rows rounded = {.codes = rounded_.get(),
                            .stride = codes_->stride,
                            .scales = reinterpret_cast<float*>(rounded_.get() + sizes_.codes_bytes),
                            .group_step = count};
  launch_round_e4m3({.x = product.x, .out = rounded, .group = group_of_inputs(*codes_)}, stream_);
  set_rows(product, rounded, count);
  return product;
}

std::vector<ProductAlgorithm> ProductProbe::algorithms(std::int64_t count, int most) {
  return library_.algorithms(product_of(0, count), most);
}

bool ProductProbe::multiply(const Product& product, const ProductAlgorithm* algorithm) {
  if (algorithm != nullptr)
    return library_.multiply(product, *algorithm, workspace_.get(), stream_);
  const auto* const bias = biased() ? reinterpret_cast<const float*>(bias_.get()) : nullptr;
  multiply_ourselves(product, codes_, bias, stream_);
  return true;
}

std::byte* ProductProbe::look(std::span<const std::int64_t> rows, std::byte* to) {
  const Rows& y = sizes_.y;
  for (const std::int64_t row : rows) {
    runtime_.copy({.to = to,
                   .to_stride = sizes_.row_bytes,
                   .from = y_.get() + static_cast<std::size_t>(row * y.stride) * size_of(y.type),
                   .from_stride = sizes_.row_bytes,
                   .row_bytes = sizes_.row_bytes,
                   .rows = 1},
                  Direction::kToHost, stream_);
    to += sizes_.row_bytes;
  }
  return to;
}

std::optional<ProductBits> ProductProbe::run(std::int64_t first, std::int64_t count,
                                             std::span<const std::int64_t> rows,
                                             const ProductAlgorithm* algorithm) {
  // What an earlier run left is not this one's.
  runtime_.zero(y_.get(), bytes_of(sizes_.y), stream_);
  Product product = product_of(first, count);
  if (!multiply(product, algorithm)) return std::nullopt;
  std::byte* end = look(rows, seen_.get());
  // Sums that differ seldom differ once they are rounded to bf16. What is left of them when that is
  // taken away does.
  if (sizes_.y.type == DType::kBf16) {
    runtime_.zero(c_.get(), bytes_of(sizes_.y), stream_);
    product.c = product.y;
    product.c.data = c_.get();
    launch_add({.x = product.y, .y = product.c, .scale = -1}, stream_);
    if (!multiply(product, algorithm)) return std::nullopt;
    end = look(rows, end);
  }
  runtime_.synchronize(stream_);
  return ProductBits(seen_.get(), end);
}

double ProductProbe::time(std::int64_t count, const ProductAlgorithm* algorithm) {
  constexpr int kCalls = 5;
  const Product product = product_of(0, count);
  const SteadyClock clock;
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 4; ++round) {
    runtime_.synchronize(stream_);
    const Nanos begin = clock.now();
    for (int call = 0; call < kCalls; ++call) {
      if (!multiply(product, algorithm)) return std::numeric_limits<double>::infinity();
    }
    runtime_.synchronize(stream_);
    if (round > 0) least = std::min(least, seconds(clock.now() - begin) / kCalls);
  }
  return least;
}

}  // namespace saccade::cuda
