// The kernels for portable, compiled with its flags.
#include "ops/cpu/isa/table.h"
#include "ops/cpu/products/four_bit_kernels.h"
#include "ops/cpu/products/int8_kernels.h"
#include "ops/cpu/products/w4a8.h"
#include "ops/cpu/simd/bytes_portable.h"
#include "ops/cpu/simd/nibbles_portable.h"
#include "ops/cpu/simd/vec_portable.h"

namespace saccade::cpu {

const Kernels& portable_kernels() {
  static constexpr Kernels kTable = table_of<VecPortable>("portable");
  return kTable;
}

const Int8Kernels& portable_int8() {
  static constexpr Int8Kernels kTable = Int8<VecPortable, BytesPortable>::table();
  return kTable;
}

const FourBitKernels& portable_four_bits() {
  static constexpr FourBitKernels kTable = FourBits<VecPortable, NibblesPortable>::table();
  return kTable;
}

const W4A8Kernels& portable_w4a8() {
  static constexpr W4A8Kernels kTable = W4A8<VecPortable, BytesPortable>::table();
  return kTable;
}

}  // namespace saccade::cpu
