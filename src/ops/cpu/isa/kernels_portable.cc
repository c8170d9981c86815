// The kernels for portable, compiled with its flags.
#include "ops/cpu/isa/table.h"
#include "ops/cpu/products/codes_by_bytes.h"
#include "ops/cpu/products/four_bit_kernels.h"
#include "ops/cpu/products/int8_kernels.h"
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

const CodeByteKernels& portable_code_bytes() {
  static constexpr CodeByteKernels kTable = CodesByBytes<VecPortable, BytesPortable>::table();
  return kTable;
}

}  // namespace saccade::cpu
