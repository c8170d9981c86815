// How near two models' next tokens are to each other, over logits of the same positions.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace saccade {

struct LogitAgreement {
  std::vector<double> divergences;  // KL(first || second) of each position, nats
  std::int64_t same = 0;            // positions whose most likely token is the same
  std::int64_t positions = 0;

  // [positions, vocab] f32 of the host, both.
  void add(View first, View second);
  // Of a position; 0 without any.
  double mean_divergence() const;
  // What `share` of the positions are at or under: 0.99 for all but the worst hundredth. 0 without
  // any.
  double divergence_of(double share) const;
};

}  // namespace saccade
