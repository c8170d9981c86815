// gemm of many rows with a weight of codes by way of a library: bands of its outputs become bf16 in
// scratch, one after another.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/rounding.h"
#include "ops/cuda/codes/dequantize_codes.h"
#include "ops/cuda/cuda_device.h"

namespace saccade::cuda {
namespace {

constexpr std::int64_t kBandUnit = 128;  // outputs: whole tiles of a product

// Outputs [first, first + count) of what has one a column.
Rows cols_from(Rows rows, std::int64_t first, std::int64_t count) {
  if (rows.data == nullptr) return rows;
  rows.data =
      static_cast<std::byte*>(rows.data) + static_cast<std::size_t>(first) * size_of(rows.type);
  rows.cols = count;
  return rows;
}

// Whether the table has an algorithm for so many rows by outputs of that shape, whatever follows
// the product: its sums may be asked for as either type.
bool chosen(const ProductTable& table, const Rows& weight, std::int64_t rows) {
  return std::ranges::all_of(std::array{DType::kBf16, DType::kF32}, [&](DType type) {
    Product product;
    product.weight = weight;
    product.y.type = type;
    product.y.rows = rows;
    return table.choose(product) != nullptr;
  });
}

}  // namespace

DequantizedBands dequantized_bands(const CodedRows& weight, std::size_t band_bytes) {
  Rows band = {nullptr, DType::kBf16, 0, weight.cols, round_up(weight.cols, 8)};
  const std::size_t row_bytes = static_cast<std::size_t>(band.stride) * size_of(band.type);
  const std::int64_t most = std::max<std::int64_t>(
      kBandUnit, static_cast<std::int64_t>(band_bytes / row_bytes) / kBandUnit * kBandUnit);
  const std::int64_t even = ceil_div(weight.rows, ceil_div(weight.rows, most));
  band.rows = std::min(weight.rows, round_up(even, kBandUnit));
  Rows last = band;
  last.rows = weight.rows - (weight.rows - 1) / band.rows * band.rows;
  return {band, last};
}

bool CudaDevice::may_dequantize(const CodedRows& weight) const {
  const bool form = weight.form == CodeForm::kE4m3 || weight.form == CodeForm::kNibbles;
  return products_ != nullptr && !products_->batch_invariant() && activations_ == DType::kBf16 &&
         form && weight.rounded && weight.rows > 0 && weight.cols > 0 &&
         (weight.order == nullptr || weight.cols <= kMaxOrderedInputs);
}

// Scratch is taken now: what is left of the device's memory goes to keys and values.
void CudaDevice::learn_wide(const CodedRows& weight) {
  if (!may_dequantize(weight)) return;
  const DequantizedBands bands = dequantized_bands(weight, dequantized_.band_bytes);
  CudaStream& steps = *lanes_[static_cast<std::size_t>(Lane::kStep)];
  CudaStream& encodes = *lanes_[static_cast<std::size_t>(Lane::kEncode)];
  encodes.reserve(encodes.dequantized_, bytes_of(bands.whole));
  std::byte* const scratch = steps.reserve(steps.dequantized_, bytes_of(bands.whole));
  if (products_->knows(bands.whole) && products_->knows(bands.last)) return;
  steps.synchronize();  // whoever uses it
  CudaStream& copies = *lanes_[static_cast<std::size_t>(Lane::kCopy)];
  const auto learn = [&](std::int64_t first, Rows band) {
    band.data = scratch;
    launch_dequantize_codes({weight, first, band}, copies.launching());
    products_->learn(band, copies.launching());
  };
  learn(0, bands.whole);
  learn(weight.rows - bands.last.rows, bands.last);
  copies.synchronize();
}

bool CudaStream::multiply_wide(const GemmKernelArgs& args, const CodedRows& weight) {
  const std::int64_t rows = args.y.rows;
  if (!device_.may_dequantize(weight) || rows < device_.dequantized_.least_rows ||
      args.x.type != DType::kBf16 || reinterpret_cast<std::uintptr_t>(args.x.data) % 16 != 0 ||
      args.x.stride % 8 != 0)
    return false;
  const DequantizedBands bands = dequantized_bands(weight, device_.dequantized_.band_bytes);
  const ProductTable& table = *device_.products_;
  if (!chosen(table, bands.whole, rows) || !chosen(table, bands.last, rows)) return false;
  Rows band = bands.whole;
  band.data = reserve(dequantized_, bytes_of(band));
  for (std::int64_t first = 0; first < weight.rows; first += bands.whole.rows) {
    band.rows = std::min(bands.whole.rows, weight.rows - first);
    launch(launch_dequantize_codes, {weight, first, band});
    GemmKernelArgs part = args;
    part.weight = band;
    if (args.bias != nullptr) part.bias = args.bias + first;
    part.residual = cols_from(args.residual, first, band.rows);
    part.y = cols_from(args.y, first, band.rows);
    const bool multiplied = multiply_by_library(part);
    CHECK(multiplied, "no product of {} rows by outputs {} to {}", rows, first, first + band.rows);
  }
  return true;
}

}  // namespace saccade::cuda
