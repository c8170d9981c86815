// The experts of a decoder layer: a router, and as many gated MLPs as it chooses from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/checkpoint/weight_table.h"
#include "ops/device.h"

namespace saccade {

struct ExpertSettings {
  std::int64_t count = 0;      // of a layer that has them; 0: no layer has
  std::int64_t per_token = 0;  // chosen by the router
  std::int64_t intermediate = 0;
  bool normalise = true;     // the weights of those chosen sum to 1
  std::vector<bool> layers;  // which have experts; the others have one MLP
};

// Below a layer.
struct ExpertNames {
  std::string router = "mlp.gate";
  std::string experts = "mlp.experts";
  // One tensor for all of them (TensorKind::kExperts) under EXPERTS.gate_up_proj and .down_proj;
  // else a matrix each, EXPERTS.N.gate_proj.weight and so on.
  bool stacked = false;
};

class ExpertBlock {
 public:
  // Of `intermediate` columns a rank has [mine.begin, mine.end): all where there is one.
  struct Widths {
    std::int64_t hidden = 0;
    std::int64_t intermediate = 0;
    WeightTable::Range mine = {};
  };
  // `at` is the layer's prefix.
  void add_weights(WeightTable& table, const ExpertSettings& settings, const ExpertNames& names,
                   const std::string& at, const Widths& widths);
  // Once, when they are loaded.
  void list();

  const Linear& router() const { return router_; }
  std::span<const ExpertWeights> experts() const { return experts_; }

 private:
  void add_stacked(WeightTable& table, const std::string& name, const Widths& widths);

  Linear router_;
  std::vector<Linear> gate_up_;
  std::vector<Linear> down_;
  std::vector<ExpertWeights> experts_;
};

}  // namespace saccade
