// Who computes which tile of a flash attention: every tile of every head once, by blocks that have
// about the same to do.
#include "ops/cuda/libraries/flash_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/rng.h"

namespace saccade::cuda {
namespace {

using Tile = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // sequence, head, tile

struct FlashCase {
  FlashForm form;
  std::int64_t heads = 1;
  int blocks = 1;
  std::vector<FlashSequence> sequences;
};

FlashCase random_case(Rng& rng) {
  const auto below = [&](std::uint64_t most) { return static_cast<std::int32_t>(rng.below(most)); };
  FlashCase made;
  made.form = {.paged = below(2) == 0,
               .head_dim = 64,
               .query_rows = 1 + below(200),
               .key_rows = 1 + below(200)};
  made.heads = 1 + below(32);
  made.blocks = 1 + below(140);
  std::int32_t row = 0;
  for (std::int32_t i = 0, count = 1 + below(9); i < count; ++i) {
    FlashSequence& sequence = made.sequences.emplace_back();
    sequence.query_begin = row + below(3);
    sequence.query_count = 1 + below(below(2) == 0 ? 20 : 3000);
    sequence.key_begin = below(1000);
    sequence.key_count = sequence.query_count + (made.form.paged ? below(5000) : 0);
    row = sequence.query_begin + sequence.query_count;
  }
  return made;
}

struct Dealt {
  std::map<Tile, int> times;
  std::vector<std::int64_t> loads;  // of blocks
  std::int64_t dearest = 0;
};

// Reads the lists as a kernel does.
Dealt deal(const FlashCase& from) {
  const FlashPlan plan(from.form, from.heads, from.blocks, from.sequences);
  const FlashLists lists = plan.at(plan.integers().data());
  Dealt dealt;
  EXPECT_EQ(lists.works, plan.works());
  EXPECT_EQ(lists.work_begins[0], 0);
  EXPECT_EQ(lists.work_begins[from.blocks], lists.works);
  EXPECT_EQ(lists.key_counts + lists.works, plan.integers().data() + plan.integers().size());
  for (int block = 0; block < from.blocks; ++block) {
    std::int64_t& load = dealt.loads.emplace_back();
    EXPECT_LE(lists.work_begins[block], lists.work_begins[block + 1]);
    for (std::int32_t work = lists.work_begins[block]; work < lists.work_begins[block + 1];
         ++work) {
      const auto which = static_cast<std::size_t>(lists.sequences[work]);
      const FlashSequence& sequence = from.sequences.at(which);
      EXPECT_EQ(lists.query_begins[work], sequence.query_begin);
      EXPECT_EQ(lists.query_counts[work], sequence.query_count);
      EXPECT_EQ(lists.key_begins[work], sequence.key_begin);
      EXPECT_EQ(lists.key_counts[work], sequence.key_count);
      ++dealt.times[{lists.sequences[work], lists.heads[work], lists.tiles[work]}];
      const std::int64_t cost =
          FlashPlan::cost(from.form, FlashPlan::keys_of(from.form, sequence, lists.tiles[work]));
      load += cost;
      dealt.dearest = std::max(dealt.dearest, cost);
    }
  }
  return dealt;
}

TEST(FlashPlan, EveryTileOfEveryHeadIsDoneOnce) {
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    const FlashCase made = random_case(rng);
    const Dealt dealt = deal(made);
    std::size_t want = 0;
    for (std::size_t i = 0; i < made.sequences.size(); ++i) {
      const std::int32_t tiles =
          (made.sequences[i].query_count + made.form.query_rows - 1) / made.form.query_rows;
      for (std::int32_t tile = 0; tile < tiles; ++tile)
        for (std::int32_t head = 0; head < made.heads; ++head, ++want)
          ASSERT_EQ(dealt.times.count({static_cast<std::int32_t>(i), head, tile}), 1u)
              << "round " << round << ": tile " << tile << " of head " << head;
    }
    ASSERT_EQ(dealt.times.size(), want);
    for (const auto& [tile, times] : dealt.times) ASSERT_EQ(times, 1);
  }
}

// Whoever got a piece had no more than the mean before.
TEST(FlashPlan, BlocksHaveAboutTheSame) {
  Rng rng(4);
  for (int round = 0; round < 300; ++round) {
    const FlashCase made = random_case(rng);
    const Dealt dealt = deal(made);
    std::int64_t all = 0;
    for (const std::int64_t load : dealt.loads) all += load;
    ASSERT_LE(*std::ranges::max_element(dealt.loads), all / made.blocks + dealt.dearest)
        << "round " << round;
  }
}

TEST(FlashPlan, ATileWalksTheKeysThatItsRowsSee) {
  const FlashForm form = {.paged = true, .head_dim = 64, .query_rows = 128, .key_rows = 96};
  const FlashSequence chunk = {
      .query_begin = 0, .query_count = 300, .key_begin = 0, .key_count = 1000};
  EXPECT_EQ(FlashPlan::keys_of(form, chunk, 0), 828);
  EXPECT_EQ(FlashPlan::keys_of(form, chunk, 1), 956);
  EXPECT_EQ(FlashPlan::keys_of(form, chunk, 2), 1000);
  EXPECT_EQ(FlashPlan::cost(form, 956), 960 + 128);
  FlashForm both_ways = form;
  both_ways.paged = false;
  EXPECT_EQ(FlashPlan::keys_of(both_ways, chunk, 0), 1000);
}

// The longest is not left for the end, when nobody has anything else to do.
TEST(FlashPlan, TheDearestComesFirst) {
  const FlashForm form = {.paged = true, .head_dim = 64, .query_rows = 10, .key_rows = 10};
  const std::vector<FlashSequence> sequences = {{0, 10, 0, 10}, {10, 10, 1, 5000}, {20, 30, 9, 30}};
  const FlashPlan plan(form, 2, 3, sequences);
  const FlashLists lists = plan.at(plan.integers().data());
  for (int block = 0; block < 2; ++block) {
    ASSERT_EQ(lists.work_begins[block + 1] - lists.work_begins[block], 1);
    EXPECT_EQ(lists.sequences[lists.work_begins[block]], 1);
  }
  EXPECT_EQ(lists.work_begins[3] - lists.work_begins[2], 8);
}

}  // namespace
}  // namespace saccade::cuda
