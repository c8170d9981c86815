// How near two models' next tokens are to each other, over logits of the same positions.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace saccade {

struct LogitAgreement {
  double divergence = 0;  // sum of KL(first || second), nats
  std::int64_t same = 0;  // positions whose most likely token is the same
  std::int64_t positions = 0;

  // [positions, vocab] f32 of the host, both.
  void add(View first, View second);
  // Of a position; 0 without any.
  double mean_divergence() const;
};

}  // namespace saccade
