// Keys and values that a kernel writes in bytes are the definition's (ops/formats/kv_rows.h), bit
// for bit and byte for byte of the pool; and what codes are in registers.
#include "ops/cuda/attention/kv_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ops/cuda/codes/code_pairs.h"
#include "ops/formats/kv_rows.h"
#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {
namespace {

TEST(KvCodes, EveryCodeAsOneOfAPair) {
  const auto number = [](std::uint32_t pair, int half) {
    return to_float(Bf16{static_cast<std::uint16_t>(pair >> 16 * half)});
  };
  for (std::uint32_t code = 0; code < 256; ++code) {
    const std::uint32_t other = (code * 37 + 11) % 256;
    // What lies in the other bytes does not matter.
    const std::uint32_t bytes = byte_pair(0xab00cd00U | code << 16 | other);
    EXPECT_EQ(number(bytes, 1), static_cast<std::int8_t>(code));
    EXPECT_EQ(number(bytes, 0), static_cast<std::int8_t>(other));
    EXPECT_EQ(widen(static_cast<std::int8_t>(code)), static_cast<std::int8_t>(code));
    if ((code & 127) == 127 || (other & 127) == 127) continue;
    const E4m3 e4m3{static_cast<std::uint8_t>(code)};
    const std::uint32_t pair = e4m3_pair(0x00ab00cdU | code << 24 | other << 8);
    EXPECT_EQ(number(pair, 1), to_float(e4m3));
    EXPECT_EQ(number(pair, 0), to_float(E4m3{static_cast<std::uint8_t>(other)}));
    EXPECT_EQ(widen(e4m3), to_float(e4m3));
  }
}

// Every bf16 that is a number, and the floats around it.
TEST(KvCodes, NumbersRoundToTheNearestE4m3) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float number = to_float(Bf16{static_cast<std::uint16_t>(bits)});
    if (!std::isfinite(number)) continue;
    for (const float near : {number, std::nextafterf(number, 0), std::nextafterf(number, 1e38F)})
      ASSERT_EQ(e4m3_code(near), to_e4m3(near).bits) << near;
  }
}

struct WriteCase {
  DType type, cache;
  std::int64_t head_dim, kv_heads, block_size;
  bool turns = false;  // the fused form: head norms and rotation before
};

// Rows of keys and values that are told by what they hold: random of every size, halves between
// two codes, none, too little, and what is no number.
void fill_rows(TestRows& rows, std::int64_t head_dim, DType cache, Rng& rng) {
  rows.random(rng, 2);
  const float top = cache == DType::kI8 ? 127.0f : 448.0f;
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    for (std::int64_t col = 0; col < rows.cols(); ++col) {
      const float at = rows.at(row, col);
      const std::int64_t kind = (row + col / head_dim) % 9;
      const std::int64_t place = col % head_dim;
      if (kind == 1) rows.set(row, col, std::ldexp(at, static_cast<int>(row * 5) - 60));
      if (kind == 2) {  // codes are the numbers themselves, and halves
        const auto code = static_cast<std::uint8_t>(rng.below(125));
        const float low = to_float(E4m3{code});
        const float half = cache == DType::kI8
                               ? static_cast<float>(code) + 0.5f
                               : (low + to_float(E4m3{static_cast<std::uint8_t>(code + 1)})) / 2;
        rows.set(row, col, place == 0 ? -top : rng.below(2) == 0 ? half : -half);
      }
      if (kind == 3) rows.set(row, col, place % 2 == 0 ? 0.0f : -0.0f);
      if (kind == 4) rows.set(row, col, at * 1e-31f);
      if (kind == 5 && place == head_dim - 1) rows.set(row, col, -INFINITY);
      if (kind == 6 && place == head_dim / 2) rows.set(row, col, NAN);
      if (kind == 7) rows.set(row, col, at * 1e38f);
    }
  }
}

void check_write(const WriteCase& c) {
  SCOPED_TRACE(fmt::format("{} to {} head_dim {} kv_heads {} block {} turns {}", name_of(c.type),
                           name_of(c.cache), c.head_dim, c.kv_heads, c.block_size, c.turns));
  constexpr std::int64_t kRows = 23;
  constexpr std::int64_t kGap = 5;  // between blocks: nothing is aligned
  Rng rng(7);
  const auto dims = static_cast<std::size_t>(c.head_dim);
  TestRows k(kRows, c.kv_heads * c.head_dim, c.type, true);
  TestRows v(kRows, c.kv_heads * c.head_dim, c.type, true);
  fill_rows(k, c.head_dim, c.cache, rng);
  fill_rows(v, c.head_dim, c.cache, rng);
  const std::int64_t blocks = kRows / c.block_size + 2;
  const std::int64_t used = kv_block_elements(c.cache, c.block_size, c.kv_heads, c.head_dim);
  std::vector<std::byte> pool(static_cast<std::size_t>(blocks * (used + kGap) + 1),
                              std::byte{0xee});
  std::vector<std::byte> want = pool;
  std::vector<std::int32_t> slots(static_cast<std::size_t>(blocks * c.block_size));
  std::iota(slots.begin(), slots.end(), 0);
  std::shuffle(slots.begin(), slots.end(), rng);

  QkvKernelArgs args;
  args.k = k.rows();
  args.v = v.rows();
  args.head_dim = c.head_dim;
  TestRows turned(kRows, k.cols(), DType::kF32);
  TestRows cos(kRows, std::max<std::int64_t>(1, c.head_dim / 4), DType::kF32);
  TestRows sin = cos;
  const std::vector<float> weights(dims, 1.25f);
  if (c.turns) {  // what would be stored as f32
    cos.random(rng);
    sin.random(rng);
    args.cos = cos.rows();
    args.sin = sin.rows();
    args.k_norm = {weights.data(), 1e-5f, 0};
    QkvKernelArgs apart = args;
    apart.v = {};
    apart.k_out = turned.rows();
    launch_qkv(apart, nullptr);
  }
  args.pages = {pool.data() + 1, used + kGap, c.block_size, c.kv_heads, c.head_dim, c.cache};
  args.slots = slots.data();
  launch_qkv(args, nullptr);

  for (std::int64_t row = 0; row < kRows; ++row) {
    const std::int64_t slot = slots[static_cast<std::size_t>(row)];
    std::byte* const block = want.data() + 1 + slot / c.block_size * (used + kGap);
    for (int value = 0; value < 2; ++value) {
      const TestRows& from = value != 0 ? v : c.turns ? turned : k;
      for (std::int64_t head = 0; head < c.kv_heads; ++head) {
        std::vector<float> numbers;
        for (std::int64_t dim = 0; dim < c.head_dim; ++dim)
          numbers.push_back(from.at(row, head * c.head_dim + dim));
        const std::int64_t at = (value * c.kv_heads + head) * c.block_size + slot % c.block_size;
        const float scale = round_kv_row(
            numbers, c.cache, {reinterpret_cast<std::uint8_t*>(block + at * c.head_dim), dims});
        std::memcpy(block + 2 * c.kv_heads * c.block_size * c.head_dim + at * 4, &scale, 4);
      }
    }
  }
  ASSERT_EQ(pool.size(), want.size());
  for (std::size_t i = 0; i < pool.size(); ++i)
    ASSERT_EQ(pool[i], want[i]) << "byte " << i << " of " << pool.size();
}

TEST(KvCodes, BytesInThePoolAreTheDefinitions) {
  for (const DType cache : {DType::kI8, DType::kE4m3})
    for (const DType type : {DType::kF32, DType::kBf16})
      for (const std::int64_t head_dim : {1, 13, 64, 72, 128, 256})
        for (const std::int64_t kv_heads : {1, 3})
          for (const std::int64_t block_size : {1, 3, 16})
            ASSERT_NO_FATAL_FAILURE(check_write({type, cache, head_dim, kv_heads, block_size}));
}

// In f32, where a norm's result is not rounded: what is rounded to bytes is what would be stored.
TEST(KvCodes, OfKeysThatAreTurnedOnTheWay) {
  for (const DType cache : {DType::kI8, DType::kE4m3})
    for (const std::int64_t head_dim : {64, 80})
      ASSERT_NO_FATAL_FAILURE(check_write({DType::kF32, cache, head_dim, 2, 4, true}));
}

}  // namespace
}  // namespace saccade::cuda
