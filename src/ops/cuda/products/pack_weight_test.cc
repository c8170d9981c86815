// Weights of numbers as they lie on the device: of any stored type, windows of larger matrices
// stacked, in more tiles than one either way, zero behind each row.
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_stream.h"

namespace saccade::cuda {
namespace {

// A matrix in bytes that are not aligned, as a file's may be.
struct StoredWeight {
  StoredWeight(DType type, std::int64_t rows, std::int64_t cols, Rng& rng) {
    const std::size_t size = size_of(type);
    bytes.resize(static_cast<std::size_t>(rows * cols) * size + 1);
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const auto value = static_cast<float>(rng.uniform() * 2 - 1);
      std::byte* const to = bytes.data() + 1 + static_cast<std::size_t>(i) * size;
      const Bf16 bf16 = to_bf16(value);
      const F16 f16 = to_f16(value);
      if (type == DType::kF32) std::memcpy(to, &value, size);
      if (type == DType::kBf16) std::memcpy(to, &bf16, size);
      if (type == DType::kF16) std::memcpy(to, &f16, size);
    }
    matrix.stored_out = matrix.out_end = rows;
    matrix.stored_in = matrix.in_end = cols;
    matrix.stride = cols;
    matrix.codes = {type, std::span(bytes).subspan(1)};
  }
  std::vector<std::byte> bytes;
  StoredMatrix matrix;
};

TEST(PackWeight, RowsAreTheStoredNumbers) {
  CudaDevice device(emulator::make_emulated_runtime({.late = false, .space = Space::kHost}), 3,
                    DType::kBf16);
  Rng rng(4);
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    const StoredWeight large(type, 300, 2600, rng);
    const StoredWeight small(type, 40, 2501, rng);
    const StoredMatrix parts[] = {large.matrix.outputs(7, 290).inputs(33, 2534), small.matrix};
    for (const DType compute : {DType::kBf16, DType::kF32}) {
      const auto packed = device.pack(parts, compute);
      const Rows& rows = static_cast<const CudaWeight&>(*packed).rows();
      ASSERT_EQ(rows.rows, 283 + 40);
      ASSERT_EQ(rows.cols, 2501);
      ASSERT_GT(rows.stride, rows.cols);
      std::int64_t row = 0;
      for (const StoredMatrix& part : parts) {
        const StoredMatrixReader reader(part);
        std::vector<float> want(2501);
        for (std::int64_t out = 0; out < part.out(); ++out, ++row) {
          reader.read(out, out + 1, 0, 2501, want.data(), 2501);
          for (std::int64_t col = 0; col < rows.stride; ++col) {
            const float number = col < 2501 ? want[static_cast<std::size_t>(col)] : 0;
            const std::int64_t at = row * rows.stride + col;
            if (compute == DType::kF32)
              ASSERT_EQ(static_cast<const float*>(rows.data)[at], number) << row << " " << col;
            else
              ASSERT_EQ(to_float(static_cast<const Bf16*>(rows.data)[at]),
                        to_float(to_bf16(number)))
                  << row << " " << col;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace saccade::cuda
