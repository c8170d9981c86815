// Ops that are one launch on CUDA have the bits of the ops that they are made of.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "ops/cuda/cuda_device.h"
#include "ops/cuda/emulator/emulated_device.h"
#include "tests/ops/cuda_attention.h"

namespace saccade::cuda {
namespace {

// A device, and matrices of its memory.
class FusedOps : public ::testing::Test {
 protected:
  void make(DType activations) {
    device_ = make_emulated_cuda_device({.late = true, .seed = 5}, activations);
    stream_ = &device_->lane(Lane::kStep);
  }
  View room(std::int64_t rows, std::int64_t cols, DType type) {
    const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(type);
    return buffers_.emplace_back(*device_->allocate(bytes)).view(type, rows, cols);
  }
  View sent(const std::vector<float>& values, std::int64_t rows, std::int64_t cols, DType type) {
    const View to = room(rows, cols, type);
    stream_->upload(View(const_cast<float*>(values.data()), DType::kF32, rows, cols), to);
    return to;
  }
  View random(std::int64_t rows, std::int64_t cols, DType type, float size = 2) {
    return sent(random_values(rows * cols, size), rows, cols, type);
  }
  std::vector<float> random_values(std::int64_t count, float size) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(size * static_cast<float>(2 * rng_.uniform() - 1));
    return values;
  }
  View copy_of(View from) {
    const View to = room(from.rows(), from.cols(), from.dtype());
    stream_->copy(from, to);
    return to;
  }
  std::vector<std::byte> bytes_of(View view) {
    const Buffer staging =
        *device_->allocate(static_cast<std::size_t>(view.rows()) * view.row_bytes(), Space::kHost);
    const View to = staging.view(view.dtype(), view.rows(), view.cols());
    stream_->download(view, to);
    stream_->synchronize();
    return {to.data(), to.data() + static_cast<std::size_t>(to.rows()) * to.row_bytes()};
  }
  // Kernels that `work` is.
  template <typename Work>
  std::uint64_t launches_of(const Work& work) {
    stream_->synchronize();
    const std::uint64_t before = emulator::launches();
    work();
    stream_->synchronize();
    return emulator::launches() - before;
  }

  std::unique_ptr<Device> device_;
  Stream* stream_ = nullptr;
  std::vector<Buffer> buffers_;
  Rng rng_{17};
};

struct FusedQkvCase {
  DType type;
  DType cache;
  std::int64_t head_dim;
  std::int64_t pairs;
  bool norms;
  std::int64_t gates = 0;  // columns before the queries
};

class FusedQkv : public FusedOps {
 protected:
  void check(const FusedQkvCase& c) {
    SCOPED_TRACE(fmt::format("{} over {}, heads of {}, {} pairs, norms {}, behind {}",
                             name_of(c.type), name_of(c.cache), c.head_dim, c.pairs, c.norms,
                             c.gates));
    make(c.type);
    constexpr std::int64_t kHeads = 4;
    constexpr std::int64_t kKvHeads = 2;
    constexpr std::int64_t kBlock = 4;
    constexpr std::int64_t kRows = 9;
    const std::int64_t keys = kHeads * c.head_dim;
    const std::int64_t values = keys + kKvHeads * c.head_dim;
    const std::int64_t cols = values + kKvHeads * c.head_dim;
    const View all = random(kRows, c.gates + cols, c.type);
    const View again = copy_of(all);
    // Another weight a head.
    const View norm = random(1, values, DType::kF32);
    const View cos = random(kRows, std::max<std::int64_t>(1, c.pairs), DType::kF32, 1);
    const View sin = random(kRows, std::max<std::int64_t>(1, c.pairs), DType::kF32, 1);
    const std::int64_t page = kv_block_elements(c.cache, kBlock, kKvHeads, c.head_dim);
    const auto pool = [&] {
      return KvLayer{.blocks = room(6, page, c.cache),
                     .block_size = kBlock,
                     .kv_heads = kKvHeads,
                     .head_dim = c.head_dim};
    };
    const KvLayer fused_pool = pool();
    const KvLayer pool_apart = pool();
    const std::vector<std::int32_t> blocks = {4, 0, 2, 5};
    const SequenceSpan span = {
        .row_begin = 0, .row_count = kRows, .context = 5, .prefix = 0, .blocks = blocks};
    const AttentionPlan& plan = stream_->plan_attention(
        {&span, 1},
        {.block_size = kBlock, .heads = kHeads, .kv_heads = kKvHeads, .head_dim = c.head_dim});
    const auto of = [&](View rows, const KvLayer& layer) {
      return QkvArgs{.plan = &plan,
                     .qkv = rows.col_range(c.gates, c.gates + cols),
                     .norm = c.norms ? norm : View(),
                     .epsilon = 1e-5f,
                     .weight_offset = 1,
                     .cos = cos,
                     .sin = sin,
                     .layer = layer};
    };
    EXPECT_EQ(launches_of([&] { stream_->qkv(of(all, fused_pool)); }), 1u);
    stream_->Stream::qkv(of(again, pool_apart));
    const auto queries = [&](View rows) {
      return bytes_of(copy_of(rows.col_range(0, c.gates + keys)));
    };
    EXPECT_EQ(queries(all), queries(again));
    EXPECT_EQ(bytes_of(fused_pool.blocks), bytes_of(pool_apart.blocks));
    stream_->retire();
  }
};

TEST_F(FusedQkv, HasTheBitsOfItsParts) {
  for (const DType type : {DType::kBf16, DType::kF32})
    for (const DType cache : {DType::kBf16, DType::kF16, DType::kF32, DType::kI8, DType::kE4m3})
      for (const bool norms : {false, true}) {
        check({type, cache, 128, 64, norms});
        check({type, cache, 64, 32, norms, 24});
        check({type, cache, 80, 20, norms});
        // A row's heads begin at no multiple of 16 bytes.
        check({type, cache, 64, 32, norms, 3});
        check({type, cache, 90, 45, norms});
        check({type, cache, 16, 8, norms});
      }
  check({DType::kBf16, DType::kBf16, 256, 128, true});
}

TEST_F(FusedQkv, LeavesLayerNormsToTheirOwnKernel) {
  make(DType::kBf16);
  const View all = random(1, 5 * 16, DType::kBf16);
  const View again = copy_of(all);
  const KvLayer layer = {.blocks = room(1, kv_block_elements(DType::kBf16, 4, 1, 16), DType::kBf16),
                         .block_size = 4,
                         .kv_heads = 1,
                         .head_dim = 16};
  const std::vector<std::int32_t> blocks = {0};
  const SequenceSpan span = {
      .row_begin = 0, .row_count = 1, .context = 0, .prefix = 0, .blocks = blocks};
  const AttentionPlan& plan = stream_->plan_attention(
      {&span, 1}, {.block_size = 4, .heads = 3, .kv_heads = 1, .head_dim = 16});
  QkvArgs args = {.plan = &plan,
                  .qkv = all,
                  .norm = random(1, 4 * 16, DType::kF32),
                  .subtract_mean = true,
                  .cos = random(1, 8, DType::kF32),
                  .sin = random(1, 8, DType::kF32),
                  .layer = layer};
  EXPECT_EQ(launches_of([&] { stream_->qkv(args); }), 3u);
  args.qkv = again;
  stream_->Stream::qkv(args);
  EXPECT_EQ(bytes_of(all), bytes_of(again));
}

struct ProductCase {
  std::int64_t rows;
  std::int64_t in;
  std::int64_t out;  // of an MLP: the width between its products
  bool bias = false;
  bool residual = false;
  bool fits = true;
};

class FusedProducts : public FusedOps {
 protected:
  void SetUp() override { make(DType::kBf16); }
  std::unique_ptr<PackedWeight> weight(std::int64_t out, std::int64_t in) {
    std::vector<float> values = random_values(out * in, 1);
    const StoredMatrix part = View(values.data(), DType::kF32, out, in);
    return device_->pack({&part, 1}, DType::kBf16);
  }
  // A norm of `rows`, and room for what it makes.
  NormArgs norm_of(View x) {
    return {.x = x,
            .add = {},
            .weight = random(1, x.cols(), DType::kF32),
            .bias = {},
            .epsilon = 1e-5f,
            .weight_offset = 1,
            .out = room(x.rows(), x.cols(), DType::kBf16)};
  }
};

// Weights of one tile shape after the other, sums in slices and in one; rows that a warp's norm is
// for, or a block's.
const ProductCase kProductCases[] = {
    {1, 96, 64},
    {5, 1544, 2050, true},
    {16, 512, 48, true, true},
    {3, 520, 96},
    {1, 200, 3080, true},
    {16, 264, 3072, false, true},
    {2, 40, 16904, true},
    {9, 136, 16896},
    // Too many rows, or not to be taken 16 bytes at a time; more of a norm than a launch takes.
    {17, 96, 64, true, false, false},
    {4, 100, 64, true, false, false},
    {16, 1032, 64, false, false, false},
};

TEST_F(FusedProducts, AfterANormHaveTheBitsOfBoth) {
  for (const ProductCase& c : kProductCases) {
    SCOPED_TRACE(fmt::format("{} rows, {} to {}", c.rows, c.in, c.out));
    const auto by = weight(c.out, c.in);
    const View bias = random(1, c.out, DType::kF32);
    const View residual = random(c.rows, c.out, DType::kBf16);
    const View fused = room(c.rows, c.out, DType::kBf16);
    const View apart = room(c.rows, c.out, DType::kBf16);
    NormedGemmArgs args = {.norm = norm_of(random(c.rows, c.in, DType::kBf16)), .gemm = {}};
    args.gemm = {.x = args.norm.out,
                 .weight = by.get(),
                 .bias = c.bias ? bias : View(),
                 .activation = c.residual ? Activation::kGeluTanh : Activation::kNone,
                 .residual = c.residual ? residual : View(),
                 .y = fused};
    EXPECT_EQ(launches_of([&] { stream_->normed_gemm(args); }), c.fits ? 1u : 2u);
    args.gemm.y = apart;
    stream_->Stream::normed_gemm(args);
    EXPECT_EQ(bytes_of(fused), bytes_of(apart));
  }
}

// Squares in another order add up to other last bits, which few results show: here all of them lie
// halfway between two bf16, as near as their weights can bring them.
TEST_F(FusedProducts, NormsAddInOneOrder) {
  constexpr std::int64_t kCols = 1088;
  constexpr std::int64_t kOut = 64;
  const auto by = weight(kOut, kCols);
  const View fused = room(1, kOut, DType::kBf16);
  const View apart = room(1, kOut, DType::kBf16);
  for (int time = 0; time < 8; ++time) {
    std::vector<float> values = random_values(kCols, 2);
    double squares = 0;
    for (float& value : values) {
      value = to_float(to_bf16(value));
      squares += static_cast<double>(value) * value;
    }
    const double scale = 1 / std::sqrt(squares / kCols + 1e-5);
    std::vector<float> weights;
    for (const float value : values)
      weights.push_back(static_cast<float>((1 + 0x1p-8) / (value * scale)));
    NormedGemmArgs args = {.norm = norm_of(sent(values, 1, kCols, DType::kBf16)), .gemm = {}};
    args.norm.weight = sent(weights, 1, kCols, DType::kF32);
    args.norm.weight_offset = 0;
    args.gemm = {.x = args.norm.out, .weight = by.get(), .bias = {}, .residual = {}, .y = fused};
    EXPECT_EQ(launches_of([&] { stream_->normed_gemm(args); }), 1u);
    args.gemm.y = apart;
    stream_->Stream::normed_gemm(args);
    EXPECT_EQ(bytes_of(fused), bytes_of(apart)) << time;
  }
}

TEST_F(FusedProducts, OfGatedMlpsHaveTheBitsOfTheirParts) {
  for (const bool normed : {true, false})
    for (const ProductCase& c :
         {ProductCase{1, 96, 112}, ProductCase{7, 64, 21, true, true},
          ProductCase{16, 392, 40, true}, ProductCase{3, 48, 1607, true},
          ProductCase{2, 40, 8460, true, true}, ProductCase{17, 96, 40, true, false, false},
          ProductCase{4, 100, 40, true, false, false}}) {
      SCOPED_TRACE(fmt::format("{} rows, {} to {}, normed {}", c.rows, c.in, c.out, normed));
      const auto in = weight(2 * c.out, c.in);
      const auto out = weight(c.in, c.out);
      const View in_bias = random(1, 2 * c.out, DType::kF32);
      const View out_bias = random(1, c.in, DType::kF32);
      const View residual = random(c.rows, c.in, DType::kBf16);
      const View fused = room(c.rows, c.in, DType::kBf16);
      const View apart = room(c.rows, c.in, DType::kBf16);
      const NormArgs norm = norm_of(random(c.rows, c.in, DType::kBf16));
      stream_->norm(norm);
      MlpArgs args = {.x = norm.out,
                      .in = in.get(),
                      .in_bias = c.bias ? in_bias : View(),
                      .activation = c.rows % 2 == 0 ? Activation::kGeluTanh : Activation::kSilu,
                      .out = out.get(),
                      .out_bias = c.bias ? out_bias : View(),
                      .residual = c.residual ? residual : View(),
                      .inner = room(c.rows, 2 * c.out, DType::kBf16),
                      .y = fused};
      const std::uint64_t launches = launches_of([&] {
        if (normed)
          stream_->normed_mlp({norm, args});
        else
          stream_->mlp(args);
      });
      EXPECT_EQ(launches, c.fits ? 2u : normed ? 4u : 3u);
      args.y = apart;
      stream_->norm(norm);
      stream_->Stream::mlp(args);
      EXPECT_EQ(bytes_of(fused), bytes_of(apart));
    }
}

// Norms that are no norm of rows, or write what others read, are launches of their own.
TEST_F(FusedProducts, LeaveOtherNormsAlone) {
  const auto by = weight(64, 96);
  const View bias = random(1, 96, DType::kF32);
  const View add = random(2, 96, DType::kBf16);
  for (int which = 0; which < 4; ++which) {
    NormedGemmArgs args = {.norm = norm_of(random(2, 96, DType::kBf16)), .gemm = {}};
    if (which == 0) args.norm.subtract_mean = true;
    if (which == 1) args.norm.bias = bias;
    if (which == 2) args.norm.group = 24;
    if (which == 3) args.norm.add = add;
    args.gemm = {.x = args.norm.out,
                 .weight = by.get(),
                 .bias = {},
                 .residual = {},
                 .y = room(2, 64, DType::kBf16)};
    EXPECT_EQ(launches_of([&] { stream_->normed_gemm(args); }), 2u) << which;
  }
}

// The last block of a tile to end joins what all of them left, whichever that is; of more splits or
// rows another kernel does. The same bits as one block that goes over all of them.
TEST(JoinedSplits, InTheLaunchThatComputesThem) {
  struct Case {
    std::int32_t length;  // tokens before the row
    std::int64_t group;
    std::uint64_t launches;
    DType page = DType::kBf16;
    std::int64_t head_dim = 16;
    std::int64_t kv_heads = 1;
  };
  for (const Case& c :
       {Case{64 * 31 + 9, 4, 1}, Case{64 * 32, 4, 2}, Case{64 * 15, 7, 1}, Case{64 * 16, 7, 2},
        Case{64 * 7 + 63, 16, 1}, Case{64 * 8, 16, 2}, Case{64 * 2, 3, 1, DType::kI8, 80, 2},
        Case{64 * 3, 5, 1, DType::kE4m3, 96}, Case{64 * 2, 6, 1, DType::kBf16, 128, 2},
        Case{64 * 9, 2, 1, DType::kBf16, 256}}) {
    SCOPED_TRACE(fmt::format("{} tokens, {} rows, {} of {}", c.length, c.group, name_of(c.page),
                             c.head_dim));
    const Problem problem{.head_dim = c.head_dim,
                          .kv_heads = c.kv_heads,
                          .group = c.group,
                          .page_type = c.page,
                          .contexts = {c.length, 90},
                          .counts = {1, 1},
                          .sees = causal,
                          .split_tokens = 64};
    Call walked(problem, 3);
    walked.run(1);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {  // of the order in which blocks end
      emulator::seed(seed);
      Call shared(problem, 3);
      const std::uint64_t before = emulator::launches();
      shared.run(kShared);
      EXPECT_EQ(emulator::launches() - before, c.launches);
      for (std::int64_t row = 0; row < 2; ++row)
        for (std::int64_t col = 0; col < walked.out->cols(); ++col)
          ASSERT_EQ(std::bit_cast<std::uint32_t>(shared.out->at(row, col)),
                    std::bit_cast<std::uint32_t>(walked.out->at(row, col)))
              << "row " << row << " col " << col;
    }
  }
}

}  // namespace
}  // namespace saccade::cuda
