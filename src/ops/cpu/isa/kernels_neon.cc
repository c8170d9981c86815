// The kernels for neon, which every AArch64 has.
#include "ops/cpu/isa/table.h"
#include "ops/cpu/products/four_bit_kernels.h"
#include "ops/cpu/products/int8_kernels.h"
#include "ops/cpu/products/w4a8.h"
#include "ops/cpu/simd/bytes_neon.h"
#include "ops/cpu/simd/nibbles_neon.h"
#include "ops/cpu/simd/vec_neon.h"

namespace saccade::cpu {

const Kernels& neon_kernels() {
  static constexpr Kernels kTable = table_of<VecNeon>("neon");
  return kTable;
}

const Int8Kernels& neon_int8() {
  static constexpr Int8Kernels kTable = Int8<VecNeon, BytesNeon>::table();
  return kTable;
}

const FourBitKernels& neon_four_bits() {
  static constexpr FourBitKernels kTable = FourBits<VecNeon, NibblesNeon>::table();
  return kTable;
}

const W4A8Kernels& neon_w4a8() {
  static constexpr W4A8Kernels kTable = W4A8<VecNeon, BytesNeon>::table();
  return kTable;
}

}  // namespace saccade::cpu
