// Attention on the emulated device against a double-precision loop: every head size that families
// have, every mask, pages in any order and rows without pages, and the same bits in any batch.
#include "tests/ops/cuda_attention.h"

namespace saccade::cuda {
namespace {

TEST(AttentionKernel, EveryHeadSizeCausally) {
  for (const std::int64_t head_dim : {16, 40, 64, 72, 80, 96, 128, 256})
    check({.head_dim = head_dim,
           .kv_heads = 2,
           .group = 3,
           .contexts = {0, 70, 19},
           .counts = {37, 1, 25},
           .sees = causal});
}

TEST(AttentionKernel, SegmentsWithoutPages) {
  for (const std::int64_t head_dim : {64, 72, 80, 96})
    check({.head_dim = head_dim,
           .kv_heads = 2,
           .group = 1,
           .block_size = 0,
           .contexts = {0, 0, 0, 0},
           .counts = {5, 0, 70, 64},
           .sees = both_ways});
  check({.head_dim = 64,
         .kv_heads = 1,
         .group = 4,
         .block_size = 0,
         .odd = true,
         .contexts = {0, 0},
         .counts = {33, 4},
         .sees = both_ways});
}

TEST(AttentionKernel, WindowsPrefixesAndSpans) {
  const auto window = [](std::int32_t token, std::int32_t) {
    return Interval{std::max(0, token - 39), token + 1};
  };
  const auto prefix = [](std::int32_t token, std::int32_t) {
    return Interval{0, std::max(30, token + 1)};
  };
  const auto spans = [](std::int32_t token, std::int32_t) {
    const std::int32_t end = token >= 20 && token < 90 ? 90 : token + 1;
    return Interval{std::max(0, token - 69), end};
  };
  for (const std::int64_t block_size : {16, 7, 1}) {
    check({.block_size = block_size, .contexts = {0, 200}, .counts = {110, 3}, .sees = window});
    check({.group = 2, .block_size = block_size, .contexts = {0}, .counts = {100}, .sees = prefix});
    check(
        {.kv_heads = 2, .block_size = block_size, .contexts = {10}, .counts = {90}, .sees = spans});
  }
}

// Codes and their scales, on tensor cores where a head is a multiple of 16 and pages are aligned,
// and in f32 elsewhere: the bound of numbers, for the codes' rounding is in what is wanted.
TEST(AttentionKernel, OverBytes) {
  const auto window = [](std::int32_t token, std::int32_t) {
    return Interval{std::max(0, token - 39), token + 1};
  };
  for (const DType page : {DType::kI8, DType::kE4m3}) {
    for (const DType type : {DType::kBf16, DType::kF32})
      for (const std::int64_t head_dim : {13, 16, 24, 48, 64, 72, 80, 96, 128, 256})
        check({.head_dim = head_dim,
               .kv_heads = 2,
               .group = 3,
               .type = type,
               .page_type = page,
               .contexts = {0, 70, 19},
               .counts = {37, 1, 25},
               .sees = causal});
    for (const std::int64_t block_size : {16, 7, 1})
      for (const bool odd : {false, true})
        check({.head_dim = 64,
               .group = 2,
               .block_size = block_size,
               .page_type = page,
               .odd = odd,
               .softcap = 3,
               .contexts = {0, 200},
               .counts = {110, 3},
               .sees = window});
  }
}

// A key and a value whose scale is no number: rows that see the token have none either, whatever
// they see in later splits; those before it in the same tile have the bits that they have without.
TEST(AttentionKernel, AScaleThatIsNoNumberStaysWithThoseWhoSeeIt) {
  constexpr std::int32_t kToken = 20;
  constexpr std::int32_t kRows = 140;
  for (const DType page : {DType::kI8, DType::kE4m3}) {
    for (const DType type : {DType::kBf16, DType::kF32}) {
      for (const std::int64_t band : {std::int64_t{1}, kShared}) {
        SCOPED_TRACE(fmt::format("{} over {} band {}", name_of(type), name_of(page), band));
        const Problem problem{.type = type,
                              .page_type = page,
                              .contexts = {0},
                              .counts = {kRows},
                              .sees = causal,
                              .split_tokens = 64};
        Call whole(problem, 6);
        whole.run(band);
        Call odd(problem, 6);
        const std::int64_t block = odd.blocks[kToken / 16];
        std::byte* const scales =
            odd.pages.base + block * odd.pages.block_stride + std::int64_t{2} * 16 * 64;
        const float none = std::numeric_limits<float>::quiet_NaN();
        for (const int value : {0, 1})
          std::memcpy(scales + 4 * (16 * value + kToken % 16), &none, 4);
        odd.run(band);
        for (std::int64_t row = 0; row < kRows; ++row)
          for (std::int64_t col = 0; col < 64; ++col) {
            if (row >= kToken) {
              ASSERT_TRUE(std::isnan(odd.out->at(row, col))) << row;
            } else {
              ASSERT_EQ(odd.out->at(row, col), whole.out->at(row, col)) << row;
            }
          }
      }
    }
  }
}

TEST(AttentionKernel, CapsScores) {
  for (const DType type : {DType::kBf16, DType::kF32})
    check({.head_dim = 128,
           .group = 2,
           .type = type,
           .page_type = type,
           .softcap = 3,
           .contexts = {60},
           .counts = {20},
           .sees = causal});
}

TEST(AttentionKernel, InF32AndOverEveryPageType) {
  for (const DType type : {DType::kF32, DType::kBf16})
    for (const DType page : {DType::kF32, DType::kBf16, DType::kF16})
      check({.head_dim = 24,
             .kv_heads = 2,
             .group = 2,
             .type = type,
             .page_type = page,
             .odd = true,
             .contexts = {0, 50},
             .counts = {40, 1},
             .sees = causal});
  check({.head_dim = 13, .contexts = {9}, .counts = {5}, .sees = causal});
}

TEST(AttentionKernel, RandomShapes) {
  Rng rng(9);
  const auto below = [&](std::uint64_t bound) {
    return static_cast<std::int32_t>(rng.below(bound));
  };
  for (int i = 0; i < 25; ++i) {
    Problem problem;
    problem.head_dim = 8 * (1 + below(16));
    problem.kv_heads = 1 + below(2);
    problem.group = 1 + below(7);
    problem.block_size = below(3) == 0 ? 0 : 1 + below(33);
    problem.softcap = below(3) == 0 ? 5.0f : 0.0f;
    if (problem.block_size > 0 && below(2) == 0)
      problem.page_type = below(2) == 0 ? DType::kI8 : DType::kE4m3;
    const std::int32_t window = below(2) == 0 ? 1000 : 1 + below(100);
    problem.sees = [window](std::int32_t token, std::int32_t) {
      return Interval{std::max(0, token + 1 - window), token + 1};
    };
    for (std::int32_t sequences = 1 + below(4); sequences > 0; --sequences) {
      problem.contexts.push_back(problem.block_size == 0 ? 0 : below(100));
      problem.counts.push_back(below(2) == 0 ? 1 : below(40));
    }
    problem.split_tokens = 64 << below(4);
    check(problem, below(3) - 1);
  }
}

// A row alone, among others, and in the middle of a chunk: its own sequence decides its bits.
TEST(AttentionKernel, RowsDoNotDependOnTheBatch) {
  using Types = std::pair<DType, DType>;
  for (const auto& [type, page] :
       {Types{DType::kBf16, DType::kBf16}, Types{DType::kF32, DType::kF32},
        Types{DType::kBf16, DType::kI8}, Types{DType::kBf16, DType::kE4m3},
        Types{DType::kF32, DType::kI8}, Types{DType::kF32, DType::kE4m3}}) {
    SCOPED_TRACE(fmt::format("{} over {}", name_of(type), name_of(page)));
    const Problem whole{.head_dim = 64,
                        .group = 2,
                        .type = type,
                        .page_type = page,
                        .contexts = {0},
                        .counts = {150},
                        .sees = causal};
    Call all(whole, 4);
    all.run();
    for (const std::int32_t count : {1, 17, 70}) {
      Problem chunk = whole;
      chunk.contexts = {150 - count};
      chunk.counts = {count};
      Call last(chunk, 4);
      for (std::int64_t token = 0; token < 150; ++token)
        for (std::int64_t col = 0; col < 64; ++col) {
          last.k->set(token, col, all.k->at(token, col));
          last.v->set(token, col, all.v->at(token, col));
        }
      for (std::int64_t row = 0; row < count; ++row)
        for (std::int64_t col = 0; col < 128; ++col)
          last.q->set(row, col, all.q->at(150 - count + row, col));
      last.pages = all.pages;
      last.blocks = all.blocks;
      last.run();
      for (std::int64_t row = 0; row < count; ++row)
        for (std::int64_t col = 0; col < 128; ++col)
          ASSERT_EQ(last.out->at(row, col), all.out->at(150 - count + row, col))
              << count << " rows, row " << row;
    }
  }
}

}  // namespace
}  // namespace saccade::cuda
