// The kernels for portable, compiled with its flags.
#include "ops/cpu/table.h"
#include "ops/cpu/vec_portable.h"

namespace saccade::cpu {

const Kernels& portable_kernels() {
  static constexpr Kernels kTable = table_of<VecPortable>("portable");
  return kTable;
}

}  // namespace saccade::cpu
