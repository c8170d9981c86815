// The kernels for avx512, compiled with its flags.
#include "ops/cpu/table.h"
#include "ops/cpu/vec_avx512.h"

namespace saccade::cpu {

const Kernels& avx512_kernels() {
  static constexpr Kernels kTable = table_of<VecAvx512>("avx512");
  return kTable;
}

}  // namespace saccade::cpu
