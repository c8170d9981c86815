// The element-wise functions between matrices. Apart from device.h because kernels compiled for
// one instruction set include it.
#pragma once

namespace saccade {

enum class Activation {
  kNone,
  kGeluErf,    // x/2 (1 + erf(x / sqrt 2))
  kGeluTanh,   // x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  kQuickGelu,  // x / (1 + exp(-1.702 x))
  kSilu,       // x / (1 + exp(-x))
  kRelu,       // max(x, 0)
  kSigmoid,    // 1 / (1 + exp(-x))
};

}  // namespace saccade
