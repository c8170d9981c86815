// The kernels for avx512, compiled with its flags.
#include "ops/cpu/isa/table.h"
#include "ops/cpu/products/four_bit_kernels.h"
#include "ops/cpu/products/int8_kernels.h"
#include "ops/cpu/products/w4a8.h"
#include "ops/cpu/simd/bytes_avx512.h"
#include "ops/cpu/simd/nibbles_avx512.h"
#include "ops/cpu/simd/vec_avx512.h"

namespace saccade::cpu {

const Kernels& avx512_kernels() {
  static constexpr Kernels kTable = table_of<VecAvx512>("avx512");
  return kTable;
}

const Int8Kernels& avx512_int8() {
  static constexpr Int8Kernels kTable = Int8<VecAvx512, BytesAvx512>::table();
  return kTable;
}

const FourBitKernels& avx512_four_bits() {
  static constexpr FourBitKernels kTable = FourBits<VecAvx512, NibblesAvx512>::table();
  return kTable;
}

const W4A8Kernels& avx512_w4a8() {
  static constexpr W4A8Kernels kTable = W4A8<VecAvx512, BytesAvx512>::table();
  return kTable;
}

}  // namespace saccade::cpu
