#include "engine/step/graph_rows.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

using Sizes = std::vector<std::int64_t>;

TEST(GraphRows, AreEveryEighth) {
  EXPECT_EQ(usual_graph_rows(1), (Sizes{1}));
  EXPECT_EQ(usual_graph_rows(3), (Sizes{1, 2, 3}));
  EXPECT_EQ(usual_graph_rows(8), (Sizes{1, 2, 4, 8}));
  EXPECT_EQ(usual_graph_rows(21), (Sizes{1, 2, 4, 8, 16, 21}));
  const Sizes most = usual_graph_rows(4096);
  EXPECT_EQ(most.size(), 35u);
  EXPECT_EQ(most.back(), 256);
  EXPECT_EQ(usual_graph_rows(256), most);
}

TEST(GraphRows, AreOfStepsThatDecode) {
  const auto plan_of = [](std::vector<PlannedRows> rows) {
    StepPlan plan;
    plan.rows = std::move(rows);
    return plan;
  };
  const PlannedRows decode = {.begin = 7, .count = 1, .samples = true};
  const Sizes sizes = {1, 2, 4};
  EXPECT_EQ(graph_rows_of(plan_of({}), sizes), 0);
  EXPECT_EQ(graph_rows_of(plan_of({decode}), sizes), 1);
  EXPECT_EQ(graph_rows_of(plan_of({decode, decode, decode}), sizes), 4);
  EXPECT_EQ(graph_rows_of(plan_of(std::vector<PlannedRows>(5, decode)), sizes), 0);
  EXPECT_EQ(graph_rows_of(plan_of({decode}), {}), 0);
  PlannedRows chunk = decode;
  chunk.count = 2;
  EXPECT_EQ(graph_rows_of(plan_of({decode, chunk}), sizes), 0);
  PlannedRows unfinished = decode;
  unfinished.samples = false;
  EXPECT_EQ(graph_rows_of(plan_of({decode, unfinished}), sizes), 0);
  PlannedRows drafts = decode;
  drafts.count = 3;
  drafts.drafts = 2;
  EXPECT_EQ(graph_rows_of(plan_of({drafts}), sizes), 0);
}

}  // namespace
}  // namespace saccade
