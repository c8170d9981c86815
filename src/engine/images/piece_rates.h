// How fast the kinds of work of an encoding go on this machine, learnt from the pieces that have
// run: what says how much of a stage a piece of so many seconds is.
#pragma once

#include "model/piecewise_run.h"

namespace saccade {

// Begins with less than any machine does, so that the first pieces are small.
class PieceRates {
 public:
  const WorkCost& rates() const { return rates_; }  // costs a second
  // A piece aimed at `aim` seconds: the smaller it was beside that, the less it tells.
  void observe(const WorkCost& cost, double seconds, double aim);

 private:
  WorkCost rates_ = {1e9, 1e9};
};

}  // namespace saccade
