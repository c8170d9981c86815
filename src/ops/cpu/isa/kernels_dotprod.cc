// The products of bytes for NEON's dot products, compiled with their flags.
#include "ops/cpu/products/int8_kernels.h"
#include "ops/cpu/products/w4a8.h"
#include "ops/cpu/simd/bytes_neon.h"

namespace saccade::cpu {
namespace {

// One instruction for four products a lane, of signed bytes.
struct BytesDotprod : BytesNeon {
  // 10 rows x 2 vectors of sums, 2 of weights and a broadcast: 23 of 32 registers, as in VecNeon.
  static constexpr int kTileRows = 10;
  static I dot(I sum, B x, B w) { return vdotq_s32(sum, w, x); }
};

}  // namespace

const Int8Kernels& dotprod_int8() {
  static constexpr Int8Kernels kTable = Int8<VecNeon, BytesDotprod>::table();
  return kTable;
}

const W4A8Kernels& dotprod_w4a8() {
  static constexpr W4A8Kernels kTable = W4A8<VecNeon, BytesDotprod>::table();
  return kTable;
}

}  // namespace saccade::cpu
