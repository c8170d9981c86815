// Made-up weights on the device.
#include <algorithm>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/rows/make_dummy_values.h"

namespace saccade::cuda {
namespace {

MakeDummyValuesArgs making(const StoredMatrix& matrix, const Rows& to, std::int64_t padded) {
  const std::int64_t row_step = matrix.turned ? 1 : matrix.stride;
  const std::int64_t col_step = matrix.turned ? matrix.stride : 1;
  return {.made = matrix.made,
          .first = matrix.made_first + matrix.out_begin * row_step + matrix.in_begin * col_step,
          .row_step = row_step,
          .col_step = col_step,
          .to = to,
          .padded = padded};
}

bool is_made(const StoredMatrix& matrix) {
  return matrix.format == StoredMatrix::Format::kMade && matrix.output_scale.empty();
}

}  // namespace

bool CudaDevice::make_weight(std::span<const StoredMatrix> parts, const Rows& rows) {
  const bool floats = rows.type == DType::kF32 || rows.type == DType::kBf16;
  if (!floats || !std::ranges::all_of(parts, is_made)) return false;
  CudaStream& copies = *lanes_[static_cast<std::size_t>(Lane::kCopy)];
  Rows part = rows;
  for (const StoredMatrix& matrix : parts) {
    part.rows = matrix.out();
    launch_make_dummy_values(making(matrix, part, rows.stride), copies.launching());
    part.data = static_cast<std::byte*>(part.data) +
                static_cast<std::size_t>(part.rows * part.stride) * size_of(part.type);
  }
  // Other lanes read it without being told.
  runtime_->synchronize(copies.stream_);
  return true;
}

void CudaStream::fill(const StoredMatrix& from, View to) {
  if (!is_made(from)) return Stream::fill(from, to);
  CHECK(from.out() == to.rows() && from.in() == to.cols(), "{} x {} numbers for {} x {}",
        from.out(), from.in(), to.rows(), to.cols());
  if (!to.empty()) forget_biases(to);
  launch_make_dummy_values(making(from, rows_of(to), to.cols()), launching());
}

}  // namespace saccade::cuda
