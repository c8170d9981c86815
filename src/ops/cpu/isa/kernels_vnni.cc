// The products of bytes for AVX512-VNNI, compiled with its flags.
#include "ops/cpu/products/w4a8.h"
#include "ops/cpu/simd/bytes_avx512.h"

namespace saccade::cpu {
namespace {

// One instruction for four products a lane, of unsigned by signed bytes; its sums wrap, so the
// offset of 128 in x comes out whole from what they begin at.
struct BytesVnni : BytesAvx512 {
  // 14 rows x 2 vectors of sums, 2 of weights and a broadcast: 31 of 32 registers.
  static constexpr int kTileRows = 14;
  static constexpr std::uint8_t kOffset = 128;
  static constexpr bool kPairSums = false;
  static I dot(I sum, B x, B w) { return _mm512_dpbusd_epi32(sum, x, w); }
};

}  // namespace

const Int8Kernels& vnni_int8() {
  static constexpr Int8Kernels kTable = Int8<VecAvx512, BytesVnni>::table();
  return kTable;
}

const W4A8Kernels& vnni_w4a8() {
  static constexpr W4A8Kernels kTable = W4A8<VecAvx512, BytesVnni>::table();
  return kTable;
}

}  // namespace saccade::cpu
