// The kernels for avx2, compiled with its flags.
#include "ops/cpu/isa/table.h"
#include "ops/cpu/products/four_bit_kernels.h"
#include "ops/cpu/products/int8_kernels.h"
#include "ops/cpu/products/w4a8.h"
#include "ops/cpu/simd/bytes_avx2.h"
#include "ops/cpu/simd/nibbles_avx2.h"
#include "ops/cpu/simd/vec_avx2.h"

namespace saccade::cpu {

const Kernels& avx2_kernels() {
  static constexpr Kernels kTable = table_of<VecAvx2>("avx2");
  return kTable;
}

const Int8Kernels& avx2_int8() {
  static constexpr Int8Kernels kTable = Int8<VecAvx2, BytesAvx2>::table();
  return kTable;
}

const FourBitKernels& avx2_four_bits() {
  static constexpr FourBitKernels kTable = FourBits<VecAvx2, NibblesAvx2>::table();
  return kTable;
}

const W4A8Kernels& avx2_w4a8() {
  static constexpr W4A8Kernels kTable = W4A8<VecAvx2, BytesAvx2>::table();
  return kTable;
}

}  // namespace saccade::cpu
