#include "model/towers/tower_run.h"

#include <algorithm>

#include "base/check.h"

namespace saccade {
namespace {

// Of the time, for the first units of a work: works of one kind are not all as fast, and the first
// to write to memory wait for it.
constexpr double kFirst = 0.25;

// Of so many units that fit, how many are done: kernels like their rows by the dozen.
std::int64_t whole_tiles(std::int64_t units) {
  if (units >= 64) return units / 64 * 64;
  return units >= 16 ? units / 16 * 16 : units;
}

}  // namespace

TowerRun::TowerRun(const EncodeArgs& args, std::size_t layers, std::size_t rounds)
    : stream_(args.stream),
      images_(args.images.begin(), args.images.end()),
      out_(args.out.begin(), args.out.end()),
      tap_(args.tap),
      layers_(layers),
      rounds_(rounds) {}

void TowerRun::take_rows(View memory, std::int64_t rows) {
  CHECK(rows <= memory.rows(), "{} rows, {} reserved", rows, memory.rows());
  hidden_ = memory.row_range(0, rows);
}

void TowerRun::show_rows(WorkList& works, std::string name) {
  if (tap_) works.once([this, n = std::move(name)] { show(tap_, stream_, n, hidden_); });
}

void TowerRun::list_stage() {
  works_.clear();
  at_ = 0;
  done_ = 0;
  const std::size_t stage = stage_++ % (layers_ + 2);
  if (stage == 0) {
    embed(works_);
  } else if (stage <= layers_) {
    layer(works_, stage - 1);
  } else {
    project(works_);
  }
}

Result<bool> TowerRun::advance() {
  if (at_ == works_.works().size()) list_stage();
  for (; at_ < works_.works().size(); ++at_) {
    const Work& work = works_.works()[at_];
    work.run(std::exchange(done_, 0), work.units);
  }
  return complete();
}

Result<Piece> TowerRun::advance_piece(const WorkCost& rates, double seconds) {
  if (at_ == works_.works().size()) list_stage();
  Piece piece;
  bool begun = false;
  while (at_ < works_.works().size()) {
    const Work& work = works_.works()[at_];
    const std::int64_t left = work.units - done_;
    std::int64_t count = left;
    if (work.unit_cost > 0) {
      const double unit = work.unit_cost / rates[static_cast<std::size_t>(work.kind)];
      const double fit = std::max(0.0, seconds) * (done_ == 0 ? kFirst : 1) / unit;
      if (fit < static_cast<double>(left)) count = whole_tiles(static_cast<std::int64_t>(fit));
      if (count == 0 && begun) break;
      count = std::max<std::int64_t>(count, 1);
      seconds -= static_cast<double>(count) * unit;
      begun = true;
    }
    work.run(done_, done_ + count);
    piece.cost[static_cast<std::size_t>(work.kind)] += static_cast<double>(count) * work.unit_cost;
    done_ += count;
    if (done_ < work.units) break;
    done_ = 0;
    ++at_;
  }
  piece.stage_ends = at_ == works_.works().size();
  piece.complete = piece.stage_ends && complete();
  return piece;
}

}  // namespace saccade
