// The kernels for portable, compiled with its flags.
#include "ops/cpu/bytes_portable.h"
#include "ops/cpu/codes_by_bytes.h"
#include "ops/cpu/four_bit_kernels.h"
#include "ops/cpu/int8_kernels.h"
#include "ops/cpu/nibbles_portable.h"
#include "ops/cpu/table.h"
#include "ops/cpu/vec_portable.h"

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
