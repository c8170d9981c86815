#include "model/blocks/tanh_gate.h"

#include <cmath>

namespace saccade {
namespace {

float first_of(View view) {
  switch (view.dtype()) {
    case DType::kBf16:
      return to_float(*view.row<Bf16>(0));
    case DType::kF16:
      return to_float(*view.row<F16>(0));
    default:
      return *view.row<float>(0);
  }
}

}  // namespace

void add_tanh_gate(WeightTable& table, float& into, const std::string& name) {
  table.row({{name, {1}, TensorKind::kNorm}},
            [&into](const WeightTable::Tensors& tensors, Device&, DType) -> Result<std::size_t> {
              into = std::tanh(first_of(tensors.others.front()));
              return 0;
            });
}

}  // namespace saccade
