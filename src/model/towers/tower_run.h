// An encoding in progress of a tower whose stages are its layers: images become rows, rows pass
// layer after layer, and the last are made embeddings. What a stage does is listed as works, each
// of which may be cut between any two of its units.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "model/piecewise_run.h"
#include "model/towers/vision_tower.h"

namespace saccade {

// What is not a product, as multiply-adds that take about as long: a number read and written, a
// pixel cut and normed, an angle. All that hangs on them is where a stage is cut.
constexpr double kNumberCost = 8;
constexpr double kPixelCost = 32;
constexpr double kAngleCost = 128;

// Units are done in order, each once; run(begin, end) does some. What a unit becomes depends on
// the works before this one, and not on how many are done together.
struct Work {
  std::int64_t units = 0;
  double unit_cost = 0;  // as WorkCost
  std::function<void(std::int64_t begin, std::int64_t end)> run;
  WorkKind kind = WorkKind::kProducts;
};

// The works of a stage, in order.
class WorkList {
 public:
  void add(Work work) {
    if (work.units > 0) works_.push_back(std::move(work));
  }
  // Whole, at no cost worth counting.
  void once(std::function<void()> run) {
    add({.units = 1, .unit_cost = 0, .run = [f = std::move(run)](auto, auto) { f(); }});
  }
  void clear() { works_.clear(); }
  std::span<const Work> works() const { return works_; }

 private:
  std::vector<Work> works_;
};

class TowerRun : public PiecewiseRun {
 public:
  Result<bool> advance() final;
  Result<Piece> advance_piece(const WorkCost& rates, double seconds) final;

 protected:
  // Layers may be gone through several times over (`rounds`).
  TowerRun(const EncodeArgs& args, std::size_t layers, std::size_t rounds = 1);
  // The run has the first `rows` of the tower's memory. Once, before the first stage.
  void take_rows(View memory, std::int64_t rows);

  // These list what is to be done; nothing of an earlier stage is left then.
  virtual void embed(WorkList& works) = 0;  // images_ to hidden_
  virtual void layer(WorkList& works, std::size_t index) = 0;
  virtual void project(WorkList& works) = 0;  // hidden_ to out_

  // Shows hidden_, once what has been listed is done.
  void show_rows(WorkList& works, std::string name);

  Stream& stream_;
  std::vector<const PreparedImage*> images_;
  std::vector<View> out_;
  Tap tap_;
  View hidden_;

 private:
  void list_stage();
  bool complete() const { return stage_ == rounds_ * (layers_ + 2); }

  std::size_t layers_;
  std::size_t rounds_;
  std::size_t stage_ = 0;  // listed so far
  WorkList works_;         // of the last of them
  std::size_t at_ = 0;     // the work in progress
  std::int64_t done_ = 0;  // its units that are done
};

// How many units each image of a run has, one after the other.
class ImageUnits {
 public:
  void add(std::int64_t units) { begins_.push_back(begins_.back() + units); }
  std::int64_t all() const { return begins_.back(); }
  std::int64_t begin(std::size_t image) const { return begins_[image]; }
  // f(image, begin, end) of units of one image, counted from its own first, no more than `most`.
  template <typename F>
  void each(std::int64_t begin, std::int64_t end, std::int64_t most, F&& f) const {
    for (std::size_t image = 0; image + 1 < begins_.size(); ++image) {
      const std::int64_t first = begins_[image];
      const std::int64_t last = std::min(end, begins_[image + 1]);
      for (std::int64_t at = std::max(begin, first); at < last; at += most)
        f(image, at - first, std::min(at + most, last) - first);
    }
  }
  // Lists f(image, begin, end) of all units, no more than `most` a call. This outlives the work.
  template <typename F>
  void list(WorkList& works, double unit_cost, std::int64_t most, F f) const {
    works.add({.units = all(),
               .unit_cost = unit_cost,
               .run = [this, most, f = std::move(f)](std::int64_t begin, std::int64_t end) {
                 each(begin, end, most, f);
               }});
  }

 private:
  std::vector<std::int64_t> begins_ = {0};
};

}  // namespace saccade
