// Weights of codes dequantised to bf16, on the emulated device: to the bit what a host reads of the
// checkpoint and rounds, whatever the form, in any band, and nothing beside it.
#include "ops/cuda/codes/dequantize_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_device.h"
#include "tests/ops/cuda_codes.h"

namespace saccade::cuda {
namespace {

using Format = StoredMatrix::Format;

constexpr std::uint16_t kUntouched = 0x7fc1;  // a NaN that no number becomes

// Rows of bf16 with a gap of eight behind each, and before the first.
struct WideRows {
  WideRows(std::int64_t row_count, std::int64_t col_count)
      : rows(row_count), cols(col_count), padded((cols + 7) / 8 * 8), stride(padded + 8) {
    words.resize(static_cast<std::size_t>(8 + rows * stride) / 8 + 1);
    for (Word& word : words) std::ranges::fill(word.bits, kUntouched);
  }
  Rows view() { return {words[1].bits, DType::kBf16, rows, cols, stride}; }
  std::uint16_t at(std::int64_t row, std::int64_t col) const {
    const auto i = static_cast<std::size_t>(8 + row * stride + col);
    return words[i / 8].bits[i % 8];
  }

  struct alignas(16) Word {
    std::uint16_t bits[8];
  };
  std::int64_t rows, cols, padded, stride;
  std::vector<Word> words;
};

// Whose memory the host may read, and kernels that the test launches itself.
std::unique_ptr<Device> device_in_reach() {
  return make_emulated_cuda_device({.late = false, .space = Space::kHost}, DType::kBf16);
}

std::vector<StoredForm> all_forms(Stored& stored) {
  std::vector<StoredForm> all = forms(stored);
  const auto gptq = [&](std::int64_t out, std::int64_t in, std::int64_t group) {
    return stored.integers(Format::kGptq, out, in, group, true);
  };
  // More than a span of inputs; inputs that end within a chunk, a step and a pack; orders over all.
  all.push_back({"e4m3 long", {stored.e4m3(5, 4237, 2, 64)}, 2});
  all.push_back({"e4m3 odd", {stored.e4m3(9, 131, 9, 131)}, 2});
  all.push_back({"e4m3 narrow", {stored.e4m3(9, 3, 1, 3)}, 2});
  all.push_back({"awq long", {stored.integers(Format::kAwq, 8, 8264, 128)}, 2});
  all.push_back(
      {"awq odd", {stored.integers(Format::kAwq, 16, 96, 32).inputs(0, 77).outputs(3, 14)}, 2});
  all.push_back({"act-order long", {gptq(8, 4168, 64)}, 2});
  all.push_back({"act-order ends short", {gptq(16, 88, 32)}, 2});
  all.push_back({"act-order in steps", {gptq(16, 336, 16)}, 2});
  all.push_back({"act-order in a step and more", {gptq(16, 480, 48)}, 2});
  return all;
}

TEST(DequantizeCodes, GivesTheHostsNumbersRounded) {
  Stored stored(11);
  const auto device = device_in_reach();
  for (const StoredForm& form : all_forms(stored)) {
    if (form.bytes == 0) continue;
    SCOPED_TRACE(form.name);
    const auto weight = device->pack(form.parts, DType::kBf16);
    const CodedRows* const codes = static_cast<const CudaWeight&>(*weight).codes();
    ASSERT_NE(codes, nullptr);
    std::vector<float> numbers;
    for (const StoredMatrix& part : form.parts) {
      const std::vector<float> of_part = numbers_of(part);
      numbers.insert(numbers.end(), of_part.begin(), of_part.end());
    }
    const std::int64_t out = weight->out();
    const std::int64_t in = weight->in();
    for (const auto& [first, end] : {std::pair{std::int64_t{0}, out}, {out / 3, out / 3 + 2}}) {
      WideRows to(end - first, in);
      launch_dequantize_codes({*codes, first, to.view()}, nullptr);
      for (std::int64_t row = 0; row < to.rows; ++row) {
        for (std::int64_t col = 0; col < to.stride; ++col) {
          const std::uint16_t want =
              col < in ? to_bf16(numbers[static_cast<std::size_t>((first + row) * in + col)]).bits
              : col < to.padded ? std::uint16_t{0}
                                : kUntouched;
          ASSERT_EQ(to.at(row, col), want) << "output " << first + row << " input " << col;
        }
      }
      for (std::int64_t i = -8; i < 0; ++i) ASSERT_EQ(to.at(0, i), kUntouched);
    }
  }
}

// All of E4M3 but NaN; and all of four bits over all zeros.
TEST(DequantizeCodes, EveryCode) {
  Stored stored(12);
  const auto device = device_in_reach();
  const StoredMatrix bytes = stored.e4m3(1, 256, 1, 256);
  const std::span<std::byte> codes = stored.bytes_of(bytes.codes);
  for (std::size_t i = 0; i < 256; ++i)
    codes[i] = (i & 0x7f) == 0x7f ? std::byte{0} : static_cast<std::byte>(i);
  const StoredMatrix nibbles = stored.integers(Format::kGptq, 16, 64, 64);
  const std::span<std::byte> words = stored.bytes_of(nibbles.codes);
  for (std::size_t i = 0; i < words.size(); ++i)  // inputs 0 to 7 of an output, then its next
    words[i] = static_cast<std::byte>((i % 4 * 2 + i / 64 * 8) % 16 * 0x11 + 0x10);
  const std::span<std::byte> zeros = stored.bytes_of(nibbles.zeros);
  for (std::size_t i = 0; i < zeros.size(); ++i) zeros[i] = static_cast<std::byte>(0x20 * i + 0x10);
  for (const StoredMatrix& matrix : {bytes, nibbles}) {
    const auto weight = device->pack({&matrix, 1}, DType::kBf16);
    WideRows to(matrix.out(), matrix.in());
    launch_dequantize_codes({*static_cast<const CudaWeight&>(*weight).codes(), 0, to.view()},
                            nullptr);
    const std::vector<float> numbers = numbers_of(matrix);
    for (std::int64_t i = 0; i < std::ssize(numbers); ++i)
      ASSERT_EQ(to.at(i / to.cols, i % to.cols), to_bf16(numbers[static_cast<std::size_t>(i)]).bits)
          << i;
  }
}

// As in products by the own kernel: an output with a code that is none is none.
TEST(DequantizeCodes, WhatIsNoNumberStaysInItsOutput) {
  Stored stored(13);
  const auto device = device_in_reach();
  const StoredMatrix matrix = stored.e4m3(6, 70, 6, 70);
  stored.bytes_of(matrix.codes)[2 * 70 + 69] = std::byte{0x7f};
  const auto weight = device->pack({&matrix, 1}, DType::kBf16);
  WideRows to(6, 70);
  launch_dequantize_codes({*static_cast<const CudaWeight&>(*weight).codes(), 0, to.view()},
                          nullptr);
  for (std::int64_t row = 0; row < 6; ++row) {
    for (std::int64_t col = 0; col < 70; ++col)
      EXPECT_EQ(std::isnan(to_float(Bf16{to.at(row, col)})), row == 2) << row << " " << col;
    for (std::int64_t col = 70; col < 72; ++col) EXPECT_EQ(to.at(row, col), 0);
  }
}

TEST(DequantizedBands, CoverAWeightEvenly) {
  struct Case {
    std::int64_t out, in, whole, last;
  };
  // 128 MiB: of 7B's gate and up three, of its down two; all of what fits.
  for (const Case& each : std::vector<Case>{{37888, 3584, 12672, 12544},
                                            {3584, 18944, 1792, 1792},
                                            {4608, 3584, 4608, 4608},
                                            {24, 40, 24, 24},
                                            {129, std::int64_t{1} << 20, 128, 1}}) {
    CodedRows weight;
    weight.rows = each.out;
    weight.cols = each.in;
    const DequantizedBands bands = dequantized_bands(weight, DequantizedProducts().band_bytes);
    EXPECT_EQ(bands.whole.rows, each.whole) << each.out;
    EXPECT_EQ(bands.last.rows, each.last) << each.out;
    EXPECT_EQ((each.out - bands.last.rows) % bands.whole.rows, 0);
    EXPECT_EQ(bands.whole.stride, each.in);
  }
}

}  // namespace
}  // namespace saccade::cuda
