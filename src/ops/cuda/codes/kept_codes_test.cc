// Matrices that the device keeps as their checkpoint's codes, on the emulated device: products near
// those of the numbers that the codes are, in bf16 and in f32, rows that do not know of each other,
// and what cannot be kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>

#include "base/rng.h"
#include "ops/cuda/emulator/emulated_device.h"
#include "ops/device.h"
#include "ops/readback.h"
#include "tests/ops/cuda_codes.h"

namespace saccade::cuda {
namespace {

using Format = StoredMatrix::Format;

std::vector<float> downloaded(Device& device, View from) {
  Stream& stream = device.lane(Lane::kStep);
  Buffer wide =
      *device.allocate(static_cast<std::size_t>(from.rows() * from.cols()) * sizeof(float));
  const View to = wide.view(DType::kF32, from.rows(), from.cols());
  stream.copy(from, to);
  Buffer staging;
  const View got = *readable(stream, to, staging);
  return {got.row<float>(0), got.row<float>(0) + from.rows() * from.cols()};
}

// Rows [begin, end) of x, of `in` columns, times the weight.
std::vector<float> product(Device& device, const PackedWeight& weight, std::vector<float>& x,
                           std::int64_t begin, std::int64_t end) {
  const DType type = device.activation_dtype();
  Stream& stream = device.lane(Lane::kStep);
  const std::int64_t rows = end - begin;
  const Buffer x_at =
      *device.allocate(static_cast<std::size_t>(rows * weight.in()) * size_of(type));
  const Buffer y_at =
      *device.allocate(static_cast<std::size_t>(rows * weight.out()) * sizeof(float));
  const View x_view = x_at.view(type, rows, weight.in());
  const View y_view = y_at.view(DType::kF32, rows, weight.out());
  stream.upload(View(x.data() + begin * weight.in(), DType::kF32, rows, weight.in()), x_view);
  GemmArgs args;
  args.x = x_view;
  args.weight = &weight;
  args.y = y_view;
  stream.gemm(args);
  return downloaded(device, y_view);
}

// Products of 70 rows near those of the numbers, and the same bits of few of them: small tiles and
// large ones, any place in them.
void expect_products(Device& device, const PackedWeight& weight,
                     const std::vector<StoredMatrix>& parts, Rng& rng) {
  const std::int64_t in = weight.in();
  const std::int64_t out = weight.out();
  std::vector<float> numbers;
  for (const StoredMatrix& part : parts) {
    const std::vector<float> of_part = numbers_of(part);
    numbers.insert(numbers.end(), of_part.begin(), of_part.end());
  }
  constexpr std::int64_t kRows = 70;
  std::vector<float> x = random_bf16(kRows * in, rng);
  const std::vector<float> y = product(device, weight, x, 0, kRows);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t col = 0; col < out; ++col) {
      double want = 0;
      double size = 0;
      for (std::int64_t i = 0; i < in; ++i) {
        const double term = static_cast<double>(x[static_cast<std::size_t>(row * in + i)]) *
                            numbers[static_cast<std::size_t>(col * in + i)];
        want += term;
        size += std::abs(term);
      }
      // Products are exact; f32 sums in some order, and a rounding of each group's.
      ASSERT_NEAR(y[static_cast<std::size_t>(row * out + col)], want, 16 * 0x1.0p-24 * size)
          << "row " << row << " col " << col;
    }
  }
  for (const auto& [begin, end] : {std::pair{0, 1}, {41, 42}, {30, 47}, {3, 67}}) {
    const std::vector<float> some = product(device, weight, x, begin, end);
    for (std::size_t i = 0; i < some.size(); ++i)
      ASSERT_EQ(some[i], y[static_cast<std::size_t>(begin * out) + i]) << begin << " " << i;
  }
}

TEST(KeptCodes, ProductsAreNearThoseOfDequantised) {
  Stored stored(1);
  for (const DType activations : {DType::kBf16, DType::kF32}) {
    const auto device = make_emulated_cuda_device({.late = true, .seed = 3}, activations);
    for (const StoredForm& form : forms(stored)) {
      SCOPED_TRACE(form.name);
      const auto weight = device->pack(form.parts, DType::kF32);
      const std::int64_t count = weight->in() * weight->out();
      if (form.bytes > 0) {
        EXPECT_LT(static_cast<double>(weight->bytes()), form.bytes * static_cast<double>(count));
      } else {
        EXPECT_GE(weight->bytes(), static_cast<std::size_t>(4 * count));
        continue;
      }
      expect_products(*device, *weight, form.parts, stored.rng());
    }
  }
}

// Groups of 128 inputs, of which a stage may have two: whole stages, one group and less behind
// them, with an order of the inputs and without.
TEST(KeptCodes, GroupsOf128Inputs) {
  const auto device = make_emulated_cuda_device({.late = true, .seed = 8}, DType::kBf16);
  Stored stored(6);
  for (const std::int64_t in : {64, 128, 256, 320, 832}) {
    SCOPED_TRACE(in);
    for (const StoredMatrix& matrix :
         {stored.integers(Format::kAwq, 80, in, std::min<std::int64_t>(in, 128)),
          stored.integers(Format::kGptq, 144, in, std::min<std::int64_t>(in, 128), in > 128),
          stored.e4m3(48, in, 48, 128)}) {
      const auto weight = device->pack({&matrix, 1}, DType::kF32);
      expect_products(*device, *weight, {matrix}, stored.rng());
    }
  }
}

// So wide that few rows have another tile.
TEST(KeptCodes, ManyOutputs) {
  const auto device = make_emulated_cuda_device({.late = true, .seed = 9}, DType::kBf16);
  Stored stored(7);
  constexpr std::int64_t kOut = 132 * 64 + 16;
  constexpr std::int64_t kIn = 320;
  for (const StoredMatrix& matrix : {stored.integers(StoredMatrix::Format::kAwq, kOut, kIn, 128),
                                     stored.e4m3(kOut, kIn, 128, 128)}) {
    const auto weight = device->pack({&matrix, 1}, DType::kF32);
    std::vector<float> x = random_bf16(17 * kIn, stored.rng());
    const std::vector<float> y = product(*device, *weight, x, 0, 17);
    const std::vector<float> some = product(*device, *weight, x, 4, 7);
    for (std::size_t i = 0; i < some.size(); ++i)
      ASSERT_EQ(some[i], y[static_cast<std::size_t>(4 * kOut) + i]) << i;
  }
}

TEST(KeptCodes, EveryCodeIsItsNumber) {
  for (const DType activations : {DType::kBf16, DType::kF32}) {
    const auto device = make_emulated_cuda_device({.late = true, .seed = 4}, activations);
    Stored stored(2);
    StoredMatrix matrix = stored.e4m3(4, 64, 4, 64);
    const std::span<std::byte> codes = stored.bytes_of(matrix.codes);
    for (std::size_t i = 0; i < 256; ++i)
      codes[i] = static_cast<std::byte>(i & 0x7f) == std::byte{0x7f} ? std::byte{0}
                                                                     : static_cast<std::byte>(i);
    std::vector<float> x(64 * 64);
    for (std::size_t i = 0; i < 64; ++i) x[i * 64 + i] = 1;
    const std::vector<float> numbers = numbers_of(matrix);
    const auto weight = device->pack({&matrix, 1}, DType::kF32);
    const std::vector<float> y = product(*device, *weight, x, 0, 64);
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t out = 0; out < 4; ++out)
        EXPECT_EQ(y[i * 4 + out], numbers[out * 64 + i]) << "code " << out * 64 + i;
  }
}

TEST(KeptCodes, WhatIsNoNumberStaysInItsOutput) {
  const auto device = make_emulated_cuda_device({.late = true, .seed = 5}, DType::kBf16);
  Stored stored(3);
  const StoredMatrix matrix = stored.e4m3(40, 64, 40, 64);
  stored.bytes_of(matrix.codes)[7 * 64 + 9] = std::byte{0xff};
  const auto weight = device->pack({&matrix, 1}, DType::kBf16);
  std::vector<float> x(3 * 64, 0.5F);
  const std::vector<float> y = product(*device, *weight, x, 0, 3);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 40 == 7) << i;
}

// As a table of embeddings, rounded to bf16 where the weight is packed so.
TEST(KeptCodes, RowsAreTheNumbers) {
  Stored stored(4);
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    const auto device = make_emulated_cuda_device({.late = true, .seed = 6}, activations);
    for (const StoredForm& form : forms(stored)) {
      if (form.bytes == 0) continue;
      for (const DType compute : {DType::kF32, DType::kBf16}) {
        SCOPED_TRACE(form.name);
        const auto weight = device->pack({form.parts.data(), 1}, compute);
        const std::vector<float> numbers = numbers_of(form.parts[0]);
        Stream& stream = device->lane(Lane::kStep);
        std::vector<std::int32_t> ids(static_cast<std::size_t>(weight->out()));
        std::iota(ids.begin(), ids.end(), 0);
        const Buffer out = *device->allocate(numbers.size() * size_of(activations));
        const View rows = out.view(activations, weight->out(), weight->in());
        EmbedArgs args;
        args.packed = weight.get();
        args.ids = stream.upload(ids);
        args.out = rows;
        stream.embed(args);
        stream.retire();
        const std::vector<float> got = downloaded(*device, rows);
        const bool rounds = compute == DType::kBf16 || activations == DType::kBf16;
        for (std::size_t i = 0; i < numbers.size(); ++i)
          ASSERT_EQ(got[i], rounds ? to_float(to_bf16(numbers[i])) : numbers[i]) << i;
      }
    }
  }
}

// Experts of codes, in an order or not, and of both kinds in one layer: as those of the numbers.
TEST(KeptCodes, ExpertsOfCodes) {
  constexpr std::int64_t kIn = 64;
  constexpr std::int64_t kWidth = 32;
  constexpr std::int64_t kOut = 48;
  constexpr std::int64_t kExperts = 5;
  constexpr std::int64_t kRows = 40;
  for (const char* kind : {"e4m3", "awq", "ordered", "mixed"}) {
    SCOPED_TRACE(kind);
    const std::string_view name = kind;
    Stored stored(5);
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::vector<ExpertWeights> of[2];
    const auto device = make_emulated_cuda_device({.late = true, .seed = 7}, DType::kBf16);
    const auto reference = make_reference_device();
    for (std::int64_t e = 0; e < kExperts; ++e) {
      const bool e4m3 = name == "e4m3" || (name == "mixed" && e % 2 == 0);
      const auto matrix = [&](std::int64_t out, std::int64_t in) {
        return e4m3 ? stored.e4m3(out, in, 16, 32)
                    : stored.integers(Format::kGptq, out, in, 16, name == "ordered");
      };
      const StoredMatrix gate_up = matrix(2 * kWidth, kIn);
      const StoredMatrix down = matrix(kOut, kWidth);
      Device* const devices[] = {device.get(), reference.get()};
      for (std::size_t d = 0; d < 2; ++d) {
        packed.push_back(devices[d]->pack({&gate_up, 1}, DType::kF32));
        packed.push_back(devices[d]->pack({&down, 1}, DType::kF32));
        of[d].push_back({packed[packed.size() - 2].get(), packed.back().get()});
      }
    }
    std::vector<float> x = random_bf16(kRows * kIn, stored.rng());
    std::vector<float> logits = random_bf16(kRows * kExperts, stored.rng());
    const auto run = [&](Device& on, const std::vector<ExpertWeights>& experts) {
      const DType type = on.activation_dtype();
      Stream& stream = on.lane(Lane::kStep);
      const auto make = [&](std::int64_t cols, DType as) {
        return *on.allocate(static_cast<std::size_t>(kRows * cols) * size_of(as));
      };
      const Buffer x_at = make(kIn, type);
      const Buffer logits_at = make(kExperts, DType::kF32);
      const Buffer gathered = make(kIn, type);
      const Buffer inner = make(2 * kWidth, type);
      const Buffer part = make(kOut, type);
      const Buffer y = make(kOut, type);
      stream.upload(View(x.data(), DType::kF32, kRows, kIn), x_at.view(type, kRows, kIn));
      stream.upload(View(logits.data(), DType::kF32, kRows, kExperts),
                    logits_at.view(DType::kF32, kRows, kExperts));
      stream.experts({.x = x_at.view(type, kRows, kIn),
                      .logits = logits_at.view(DType::kF32, kRows, kExperts),
                      .experts = experts,
                      .per_row = 2,
                      .gathered = gathered.view(type, kRows, kIn),
                      .inner = inner.view(type, kRows, 2 * kWidth),
                      .part = part.view(type, kRows, kOut),
                      .y = y.view(type, kRows, kOut)});
      stream.retire();
      return downloaded(on, y.view(type, kRows, kOut));
    };
    const std::vector<float> got = run(*device, of[0]);
    const std::vector<float> want = run(*reference, of[1]);
    double error = 0;
    double size = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      error += std::pow(got[i] - want[i], 2);
      size += std::pow(want[i], 2);
    }
    EXPECT_LT(std::sqrt(error / size), 8e-3);
  }
}

}  // namespace
}  // namespace saccade::cuda
