// A vision tower that only takes time: what the encoder queue runs on. Its embeddings have one
// element, 0.
#pragma once

#include "base/rng.h"
#include "model/network.h"
#include "simulate/cost_model.h"
#include "simulate/machines/machine_clock.h"

namespace saccade::simulate {

// A time with its noise. `seed` decides all that follow.
class Noise {
 public:
  Noise(double sigma, std::uint64_t seed) : sigma_(sigma), rng_(seed) {}
  Nanos of(double ms);

 private:
  double sigma_;
  Rng rng_;
};

class SimulatedTower final : public Network {
 public:
  static constexpr int kStages = 6;  // of an encode: decode steps run between them

  SimulatedTower(const cluster::StageCost& cost, double noise, std::uint64_t seed,
                 MachineClock& clock);
  Result<void> reserve(Device& device, const Capacity& capacity) override;
  void forward(Stream& stream, const Batch& batch, const Tap& tap) override;
  std::unique_ptr<EncodeRun> begin_encode(Stream& stream,
                                          std::span<const PreparedImage* const> images,
                                          std::span<const View> out, const Tap& tap) override;

 private:
  cluster::StageCost cost_;
  Noise noise_;
  MachineClock& clock_;
};

}  // namespace saccade::simulate
