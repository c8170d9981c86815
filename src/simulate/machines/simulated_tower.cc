#include "simulate/machines/simulated_tower.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/check.h"

namespace saccade::simulate {
namespace {

class TimedRun final : public EncodeRun {
 public:
  TimedRun(Nanos stage, std::vector<View> out, MachineClock& clock)
      : stage_(stage), out_(std::move(out)), clock_(clock) {}
  Result<bool> advance() override {
    clock_.work(stage_);
    if (++done_ < SimulatedTower::kStages) return false;
    for (const View& rows : out_)
      for (std::int64_t row = 0; row < rows.rows(); ++row) *rows.row<float>(row) = 0;
    return true;
  }

 private:
  Nanos stage_;
  std::vector<View> out_;
  MachineClock& clock_;
  int done_ = 0;
};

}  // namespace

Nanos Noise::of(double ms) {
  if (sigma_ > 0) {
    const double radius = std::sqrt(-2 * std::log(1 - rng_.uniform()));
    const double normal = radius * std::cos(2 * std::numbers::pi * rng_.uniform());
    ms *= std::exp(sigma_ * normal);
  }
  return std::max<Nanos>(1, std::llround(ms * 1e6));
}

SimulatedTower::SimulatedTower(const cluster::StageCost& cost, double noise, std::uint64_t seed,
                               MachineClock& clock)
    : cost_(cost), noise_(noise, seed), clock_(clock) {
  shape_.family = "simulated";
  shape_.hidden = 1;
  shape_.has_vision = true;
  shape_.embedding_dtype = DType::kF32;
}

Result<void> SimulatedTower::reserve(Device&, const Capacity&) { return {}; }

void SimulatedTower::forward(Stream&, const Batch&, const Tap&) {
  CHECK(false, "a simulated tower computes no text");
}

std::unique_ptr<EncodeRun> SimulatedTower::begin_encode(
    Stream&, std::span<const PreparedImage* const> images, std::span<const View> out, const Tap&) {
  double ms = cost_.base;
  for (const PreparedImage* image : images) {
    const auto tokens = static_cast<double>(image->layout.tokens);
    ms += cost_.ms(tokens) - cost_.base;
  }
  return std::make_unique<TimedRun>(std::max<Nanos>(1, noise_.of(ms) / kStages),
                                    std::vector<View>(out.begin(), out.end()), clock_);
}

}  // namespace saccade::simulate
