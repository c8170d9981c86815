// Attention over sequences of several splits: against the definition, and the same bits whoever
// computes a split and whatever rows are in a call.
#include <bit>

#include "tests/ops/cuda_attention.h"

namespace saccade::cuda {
namespace {

using Types = std::pair<DType, DType>;  // of rows, of pages
constexpr Types kTypes[] = {{DType::kBf16, DType::kBf16},
                            {DType::kBf16, DType::kI8},
                            {DType::kBf16, DType::kE4m3},
                            {DType::kF32, DType::kF32},
                            {DType::kF32, DType::kI8}};

// With the sign of a zero.
void expect_same_bits(const Call& got, std::int64_t got_row, const Call& want,
                      std::int64_t want_row) {
  for (std::int64_t col = 0; col < got.out->cols(); ++col)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got.out->at(got_row, col)),
              std::bit_cast<std::uint32_t>(want.out->at(want_row, col)))
        << "row " << got_row << " of " << want_row << " col " << col;
}

// Masks that begin and end within splits of 64 tokens, one that shows some rows nothing.
Interval narrow_window(std::int32_t token, std::int32_t) {
  return {std::max(0, token - 39), token + 1};
}
Interval wide_window(std::int32_t token, std::int32_t) {
  return {std::max(0, token - 149), token + 1};
}
Interval prefix(std::int32_t token, std::int32_t length) {
  return {0, std::max(std::min(100, length), token + 1)};
}
Interval gaps(std::int32_t token, std::int32_t) {
  return {token / 70 * 70, token % 70 < 9 ? token / 70 * 70 : token + 1};
}

using Mask = std::function<Interval(std::int32_t, std::int32_t)>;
std::vector<Mask> masks_of(Types types) {
  if (types == kTypes[0]) return {causal, narrow_window, wide_window, prefix, gaps};
  return {wide_window, gaps};
}

// Against the definition, and the same bits whoever computes them.
void check_splits(const Problem& problem) {
  check(problem, kShared);
  Call shared(problem, 3);
  shared.run(kShared);
  for (const std::int64_t band : {1, 1000}) {
    Call walked(problem, 3);
    walked.run(band);
    for (std::int64_t row = 0; row < walked.out->count(); ++row)
      expect_same_bits(walked, row, shared, row);
  }
}

TEST(AttentionSplits, ByOneBlockOrByMany) {
  for (const Types& types : kTypes)
    for (const Mask& sees : masks_of(types))
      check_splits({.head_dim = 48,
                    .kv_heads = 2,
                    .group = 3,
                    .type = types.first,
                    .page_type = types.second,
                    .contexts = {190, 85, 40},
                    .counts = {1, 23, 30},
                    .sees = sees,
                    .split_tokens = 64});
  for (const std::int64_t head_dim : {64, 72, 96, 128, 256})
    for (const DType page : {DType::kBf16, DType::kI8})
      check_splits({.head_dim = head_dim,
                    .group = 7,
                    .page_type = page,
                    .contexts = {150, 60},
                    .counts = {1, 10},
                    .sees = causal,
                    .split_tokens = 64});
  check_splits({.head_dim = 80,
                .kv_heads = 2,
                .block_size = 0,
                .contexts = {0, 0, 0},
                .counts = {150, 63, 65},
                .sees = both_ways,
                .split_tokens = 64});
}

// More of them than the kernel that joins them takes at a time; also where the first ones show a
// row nothing.
TEST(AttentionSplits, MoreThanAreJoinedAtATime) {
  for (const Mask& sees : {Mask(causal), Mask([](std::int32_t token, std::int32_t) {
                             return Interval{std::max(0, token - 130 * 64), token + 1};
                           })})
    check_splits({.head_dim = 16,
                  .group = 2,
                  .block_size = 64,
                  .contexts = {140 * 64 + 5},
                  .counts = {9},
                  .sees = sees,
                  .split_tokens = 64});
}

// Rows of a chunk beside the same rows in calls of their own, `count` in each, down to a decode's.
void expect_bits_of_chunk(const Problem& whole, const std::vector<std::int32_t>& firsts,
                          std::int32_t count = 1) {
  Call all(whole, 4);
  all.run(2);
  for (const std::int32_t first : firsts) {
    Problem part = whole;
    part.contexts = {whole.contexts[0] + first};
    part.counts = {count};
    for (const std::int64_t band : {std::int64_t{1}, kShared}) {
      Call some(part, 5);
      for (std::int64_t row = 0; row < count; ++row)
        for (std::int64_t col = 0; col < all.q->cols(); ++col)
          some.q->set(row, col, all.q->at(first + row, col));
      std::copy_n(all.seen.begin() + 2 * first, 2 * count, some.seen.begin());
      some.pages = all.pages;
      some.blocks = all.blocks;
      some.run(band);
      for (std::int64_t row = 0; row < count; ++row) expect_same_bits(some, row, all, first + row);
    }
  }
}

TEST(AttentionSplits, RowsDoNotDependOnTheBatch) {
  for (const Types& types : kTypes) {
    SCOPED_TRACE(fmt::format("{} over {}", name_of(types.first), name_of(types.second)));
    for (const Mask& sees : masks_of(types)) {
      const Problem whole{.head_dim = 48,
                          .group = 2,
                          .type = types.first,
                          .page_type = types.second,
                          .contexts = {110},
                          .counts = {90},
                          .sees = sees,
                          .split_tokens = 64};
      expect_bits_of_chunk(whole, {0, 17, 18, 82, 89});
      expect_bits_of_chunk(whole, {10}, 60);
    }
  }
  const Problem early{.head_dim = 16,
                      .group = 2,
                      .contexts = {0},
                      .counts = {140},
                      .sees = prefix,
                      .split_tokens = 64};
  expect_bits_of_chunk(early, {0, 70, 99, 100});
}

// A row's bits are the same whether its tile has few rows or many.
TEST(AttentionSplits, TilesOfFewRowsHaveTheBitsOfMany) {
  const auto compare = [](Problem problem) {
    SCOPED_TRACE(fmt::format("head_dim {} over {} group {}", problem.head_dim,
                             name_of(problem.page_type), problem.group));
    for (const std::int64_t band : {kShared, std::int64_t{1}}) {
      problem.few = true;
      Call few(problem, 8);
      ASSERT_GT(few.few_tiles, 0);
      few.run(band);
      problem.few = false;
      Call many(problem, 8);
      ASSERT_EQ(many.few_tiles, 0);
      many.run(band);
      for (std::int64_t row = 0; row < few.out->count(); ++row)
        expect_same_bits(few, row, many, row);
    }
  };
  using Form = std::pair<DType, std::int64_t>;  // with the head's size
  for (const auto& [page, head_dim] :
       {Form{DType::kBf16, 16}, Form{DType::kBf16, 80}, Form{DType::kBf16, 96},
        Form{DType::kBf16, 128}, Form{DType::kBf16, 256}, Form{DType::kI8, 80},
        Form{DType::kI8, 128}, Form{DType::kE4m3, 64}, Form{DType::kE4m3, 96},
        Form{DType::kE4m3, 256}})
    compare({.head_dim = head_dim,
             .group = 7,
             .page_type = page,
             .contexts = {149, 0, 60},
             .counts = {1, 2, 11},
             .sees = causal,
             .split_tokens = 64});
  for (const Mask& sees : masks_of(kTypes[0]))
    for (const float softcap : {0.0f, 3.0f})
      compare({.head_dim = 72,
               .odd = true,
               .softcap = softcap,
               .contexts = {120, 300},
               .counts = {16, 11},
               .sees = sees,
               .split_tokens = 128});
  compare({.head_dim = 80,
           .kv_heads = 2,
           .block_size = 0,
           .contexts = {0, 0, 0},
           .counts = {15, 1, 70},
           .sees = both_ways});
}

// The length that a device has.
TEST(AttentionSplits, OfTheirOwnLength) {
  static_assert(kAttentionSplitTokens == 256);
  const auto window = [](std::int32_t token, std::int32_t) {
    return Interval{std::max(0, token - 375), token + 1};
  };
  Problem whole{.head_dim = 16, .group = 2, .contexts = {502}, .counts = {20}, .sees = causal};
  check(whole);
  expect_bits_of_chunk(whole, {0, 9, 10});
  whole.page_type = DType::kE4m3;
  whole.sees = window;
  check(whole);
  expect_bits_of_chunk(whole, {9, 10});
}

// A query that is no number has no result, in whatever splits.
TEST(AttentionSplits, NoNumberStaysNone) {
  for (const DType type : {DType::kBf16, DType::kF32})
    for (const std::int64_t band : {std::int64_t{1}, kShared}) {
      const Problem problem{.type = type,
                            .page_type = type,
                            .contexts = {150},
                            .counts = {3},
                            .sees = causal,
                            .split_tokens = 64};
      Call whole(problem, 6);
      whole.run(band);
      Call odd(problem, 6);
      odd.q->set(1, 5, std::numeric_limits<float>::quiet_NaN());
      odd.run(band);
      for (std::int64_t col = 0; col < 64; ++col) ASSERT_TRUE(std::isnan(odd.out->at(1, col)));
      for (const std::int64_t row : {0, 2}) expect_same_bits(odd, row, whole, row);
    }
}

}  // namespace
}  // namespace saccade::cuda
