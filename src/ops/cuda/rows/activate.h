// The activations between products, for kernels: activation.h says what each is.
#pragma once

#include "ops/cuda/kernel.h"

namespace saccade::cuda {

SACCADE_DEVICE float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGeluErf:
      return 0.5f * x * erfcf(-0.70710678118654752f * x);
    case Activation::kGeluTanh: {
      // x/2 (1 + tanh(u)) = x / (1 + e^(-2u)): no difference of near equals.
      const float u = 0.79788456080286536f * (x + 0.044715f * x * x * x);
      return x / (1 + expf(-2 * u));
    }
    case Activation::kQuickGelu:
      return x / (1 + expf(-1.702f * x));
    case Activation::kSilu:
      return x / (1 + expf(-x));
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kSigmoid:
      return 1 / (1 + expf(-x));
  }
  return x;
}

// Not inlined: for kernels that apply it in many places of one unrolled loop.
SACCADE_OUT_OF_LINE float activate_by_call(Activation activation, float x) {
  return activate(activation, x);
}

}  // namespace saccade::cuda
