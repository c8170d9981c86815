// The products of bytes for AVX-VNNI (processors with AVX2 and no AVX-512), compiled with its
// flags.
#include "ops/cpu/products/w4a8.h"
#include "ops/cpu/simd/bytes_avx2.h"

namespace saccade::cpu {
namespace {

// VPDPBUSD of half the width: as BytesVnni.
struct BytesAvxVnni : BytesAvx2 {
  // 6 rows x 2 vectors of sums, 2 of weights and a broadcast: 15 of 16 registers.
  static constexpr int kTileRows = 6;
  static constexpr std::uint8_t kOffset = 128;
  static constexpr bool kPairSums = false;
  static I dot(I sum, B x, B w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
};

}  // namespace

const Int8Kernels& avxvnni_int8() {
  static constexpr Int8Kernels kTable = Int8<VecAvx2, BytesAvxVnni>::table();
  return kTable;
}

const W4A8Kernels& avxvnni_w4a8() {
  static constexpr W4A8Kernels kTable = W4A8<VecAvx2, BytesAvxVnni>::table();
  return kTable;
}

}  // namespace saccade::cpu
