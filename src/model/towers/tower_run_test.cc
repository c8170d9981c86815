#include "model/towers/tower_run.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/device.h"

namespace saccade {
namespace {

// Of one layer: units of products, then of attention, which cost ten times as much.
class CountedRun final : public TowerRun {
 public:
  explicit CountedRun(Stream& stream) : TowerRun({stream, {}, {}, {}}, 1) {}
  std::vector<std::int64_t> counts;  // of units, a call each

 private:
  void embed(WorkList& works) override { list(works, 10, 1, WorkKind::kProducts); }
  void layer(WorkList& works, std::size_t) override {
    list(works, 1000, 1, WorkKind::kProducts);
    list(works, 1000, 10, WorkKind::kAttention);
  }
  void project(WorkList& works) override {
    works.once([] {});
  }
  void list(WorkList& works, std::int64_t units, double cost, WorkKind kind) {
    works.add({.units = units,
               .unit_cost = cost,
               .run =
                   [this, next = std::int64_t{0}](std::int64_t begin, std::int64_t end) mutable {
                     EXPECT_EQ(begin, next) << "in order, each once";
                     next = end;
                     counts.push_back(end - begin);
                   },
               .kind = kind});
  }
};

// Pieces end with their time, or with the stage. A work that does not fit a quarter of it begins
// with a quarter: nobody has seen how fast it goes.
TEST(TowerRun, PiecesAreAsLongAsTheirTime) {
  const auto device = make_reference_device();
  CountedRun run(device->lane(Lane::kEncode));
  std::vector<std::vector<std::int64_t>> pieces;
  std::vector<bool> ends;
  for (bool complete = false; !complete;) {
    run.counts.clear();
    // 256 products, or 512 units of attention.
    const Piece piece = run.advance_piece({256, 5120}, 1).value();
    complete = piece.complete;
    pieces.push_back(run.counts);
    ends.push_back(piece.stage_ends);
    EXPECT_LE(piece.cost[0] / 256 + piece.cost[1] / 5120, 1 + 1e-9);
  }
  // Of the sixth piece, what is left of the products, and a quarter of the time that is left.
  const std::vector<std::vector<std::int64_t>> want = {{10},      {64},  {256}, {256}, {256},
                                                       {168, 32}, {512}, {456}, {}};
  EXPECT_EQ(pieces, want);
  EXPECT_EQ(ends, (std::vector<bool>{true, false, false, false, false, false, false, true, true}));
}

TEST(TowerRun, AUnitIsDoneWhateverTheTime) {
  const auto device = make_reference_device();
  CountedRun run(device->lane(Lane::kEncode));
  for (int i = 0; i < 10; ++i) {
    run.counts.clear();
    EXPECT_FALSE(run.advance_piece({1e-9, 1e-9}, 0).value().complete);
    EXPECT_EQ(run.counts, std::vector<std::int64_t>{1});
  }
}

}  // namespace
}  // namespace saccade
