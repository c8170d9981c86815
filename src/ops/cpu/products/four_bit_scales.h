// The scales of codes of four bits, for a vector type V: see FourBitPanels in kernels.h.
#pragma once

#include "ops/cpu/isa/kernels.h"

namespace saccade::cpu {

// Of a group's outputs, a lane each, in the panel that begins at `panel`.
template <typename V>
inline typename V::F load_scales(const FourBitPanels& w, const std::byte* panel, Index group) {
  const Index at = group * V::kLanes;
  if (w.scale_type == DType::kF16) return V::load(reinterpret_cast<const F16*>(panel) + at);
  if (w.scale_type == DType::kBf16) return V::load(reinterpret_cast<const Bf16*>(panel) + at);
  return V::load(reinterpret_cast<const float*>(panel) + at);
}

}  // namespace saccade::cpu
