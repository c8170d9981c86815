// Products of random matrices, whatever their weights are stored and multiplied as: against the
// reference, and row by row in any company.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/ops/devices.h"

namespace saccade {

// x W^T alone.
inline Matrix product(Device& device, const PackedWeight& weight, View x) {
  Matrix y(x.rows(), weight.out());
  GemmArgs gemm;
  gemm.x = x;
  gemm.weight = &weight;
  gemm.y = y.view();
  device.lane(Lane::kStep).gemm(gemm);
  return y;
}

// Rows that rounding to numbers of up to `top` could get wrong: ties, a lone outlier, zeros, the
// least and largest numbers. With `top` in it, a row of tie(col) is all ties.
template <typename Tie>
Matrix odd_rows(std::int64_t cols, float top, Tie tie) {
  Matrix m(9, cols);
  Rng rng(11);
  m.random(rng);
  for (std::int64_t col = 0; col < cols; ++col) {
    m.set(1, col, 0);
    m.set(2, col, tie(col));
    m.set(3, col, col == cols / 2 ? -30.0F : m.at(0, col));
    m.set(4, col, m.at(0, col) * 1e-33F);
    m.set(5, col, m.at(0, col) * 1e-29F);
    m.set(6, col, m.at(0, col) * 1e37F);
    m.set(7, col, std::ldexp(m.at(0, col), -static_cast<int>(col % 140)));
    m.set(8, col, col % 2 == 0 ? -0.0F : 1.0F);
  }
  m.set(2, 0, top);
  return m;
}

struct GemmCase {
  std::int64_t rows, in, out;
  DType stored = DType::kF32;
  DType compute = DType::kF32;
  Activation activation = Activation::kNone;
  bool bias = false;
  bool residual = false;
};

// `tolerance(size, want)`: of an element; size: the length of its row of x times its output's.
template <typename Tolerance>
void run_gemm_case(Device& device, Device& reference, const GemmCase& c,
                   const Tolerance& tolerance) {
  SCOPED_TRACE(fmt::format("rows {} in {} out {} stored {} compute {} activation {}", c.rows, c.in,
                           c.out, name_of(c.stored), name_of(c.compute),
                           static_cast<int>(c.activation)));
  Rng rng(static_cast<std::uint64_t>(c.rows * 131 + c.in * 17 + c.out));
  Matrix weight(c.out, c.in, c.stored);
  weight.random(rng);
  const StoredMatrix parts[] = {weight.view().row_range(0, c.out / 3),
                                weight.view().row_range(c.out / 3, c.out)};
  const auto packed = device.pack(parts, c.compute);
  const auto twin = reference.pack(parts, c.compute);
  Matrix x(c.rows, c.in);
  x.random(rng);
  if (c.compute == DType::kI8)
    ASSERT_EQ(packed->operand_dtype(), DType::kI8);
  else
    x.round_to(packed->operand_dtype());
  Matrix bias(1, c.out);
  bias.random(rng);
  Matrix y(c.rows, c.out);
  y.random(rng);
  Matrix want = y;
  const auto args = [&](const PackedWeight* w, Matrix& result) {
    GemmArgs gemm;
    gemm.x = x.view();
    gemm.weight = w;
    if (c.bias) gemm.bias = bias.view();
    gemm.activation = c.activation;
    if (c.residual) gemm.residual = result.view();  // in place, as the residual stream is
    gemm.y = result.view();
    return gemm;
  };
  reference.lane(Lane::kStep).gemm(args(twin.get(), want));
  device.lane(Lane::kStep).gemm(args(packed.get(), y));
  const std::vector<double> rows = x.norms();
  const std::vector<double> outputs = weight.norms();
  expect_near(y, want, [&](std::int64_t row, std::int64_t col) {
    return tolerance(rows[static_cast<std::size_t>(row)] * outputs[static_cast<std::size_t>(col)],
                     want.at(row, col));
  });
}

// The contract that batching rests on: a row alone, in any company and at any place, on any number
// of threads. `device(threads)`: one of the kind.
template <typename MakeDevice>
void expect_rows_of_themselves(const MakeDevice& device, DType compute,
                               Activation activation = Activation::kNone) {
  constexpr std::int64_t kRows = 600;
  constexpr std::int64_t kIn = 530;
  constexpr std::int64_t kOut = 150;
  Rng rng(7);
  Matrix weight(kOut, kIn);
  weight.random(rng);
  Matrix x(kRows, kIn);
  x.random(rng);
  std::vector<std::vector<float>> all;
  for (const int threads : {1, 2, 3}) {
    const auto cpu = device(threads);
    const StoredMatrix part = weight.view();
    const auto packed = (*cpu).pack({&part, 1}, compute);
    Matrix y(kRows, kOut);
    GemmArgs gemm;
    gemm.x = x.view();
    gemm.weight = packed.get();
    gemm.y = y.view();
    gemm.activation = activation;
    cpu->gemm(gemm);
    for (std::int64_t row = 0; row < kRows; ++row) {
      if (threads == 1)
        all.push_back(y.row(row));
      else
        expect_same_bits(y.row(row), all[static_cast<std::size_t>(row)]);
    }
    for (const std::int64_t count :
         {1, 1, 2, 3, 4, 5, 6, 7, 8, 11, 14, 15, 16, 17, 23, 31, 32, 33, 40, 65, 100, 513}) {
      std::vector<std::size_t> picked;
      Matrix some(count, kIn);
      for (std::int64_t i = 0; i < count; ++i) {
        picked.push_back(rng.below(kRows));
        for (std::int64_t col = 0; col < kIn; ++col)
          some.set(i, col, x.at(static_cast<std::int64_t>(picked.back()), col));
      }
      Matrix result(count, kOut);
      gemm.x = some.view();
      gemm.y = result.view();
      cpu->gemm(gemm);
      for (std::int64_t i = 0; i < count; ++i) {
        SCOPED_TRACE(fmt::format("row {} of {}, {} threads", i, count, threads));
        expect_same_bits(result.row(i), all[picked[static_cast<std::size_t>(i)]]);
      }
    }
  }
}

}  // namespace saccade
