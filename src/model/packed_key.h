// What the bytes of packed weights follow from: the key of a PackedCache's file.
#pragma once

#include <string>

#include "model/checkpoint/weight_table.h"
#include "model/families.h"

namespace saccade {

// Which of several ranks' shares.
struct RankShare {
  int rank = 0;
  int ranks = 1;
};

// `weights`: Weights::identity(). Two that differ in anything that could change a byte have keys
// that differ; where the checkpoint lies does not count.
std::string packed_key(const Checkpoint& checkpoint, std::string_view family,
                       const std::string& weights, const WeightTypes& types, Parts parts,
                       RankShare share);

}  // namespace saccade
