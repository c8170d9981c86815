// The kernels for avx2, compiled with its flags.
#include "ops/cpu/table.h"
#include "ops/cpu/vec_avx2.h"

namespace saccade::cpu {

const Kernels& avx2_kernels() {
  static constexpr Kernels kTable = table_of<VecAvx2>("avx2");
  return kTable;
}

}  // namespace saccade::cpu
