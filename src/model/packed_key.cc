#include "model/packed_key.h"

#include <boost/json/serialize.hpp>

namespace saccade {

std::string packed_key(const Checkpoint& checkpoint, std::string_view family,
                       const std::string& weights, const WeightTypes& types, Parts parts,
                       RankShare share) {
  // All members by name: one that is added does not compile until it stands here.
  const auto& [compute, text_layers, tower_layers, head, four_bit_text, dequantize, int8_rows,
               weight_only] = types;
  return fmt::format("{} {}\nrank {} of {}, parts {}\n{} {} {} {} {} {} {} {}\n{}\n{}",
                     SACCADE_VERSION, family, share.rank, share.ranks, static_cast<int>(parts),
                     name_of(compute), name_of(text_layers), name_of(tower_layers), name_of(head),
                     four_bit_text, dequantize, static_cast<int>(int8_rows), weight_only,
                     boost::json::serialize(checkpoint.config), weights);
}

}  // namespace saccade
