// Which instructions this machine has, and which of them a device was told to use.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade::cpu {

// In order of preference, worst first. Each includes the ones of its architecture before it, but
// that AVX-512 does not include AVX-VNNI.
enum class Isa : std::uint8_t {
  kPortable,  // whatever the compiler targets
  // ARM, 64 bits:
  kNeon,     // Advanced SIMD as every such processor has it
  kDotprod,  // SDOT on top: products of bytes
  // x86-64:
  kAvx2,     // AVX2, FMA, F16C
  kAvxVnni,  // AVX-VNNI on top: products of bytes
  kAvx512,   // AVX-512 F, BW, DQ, VL
  kVnni,     // AVX512-VNNI on top: products of bytes
  kBf16,     // AVX512-BF16 on top: products of bf16
  kAmx,      // AMX-TILE, AMX-BF16 and AMX-INT8 on top: matrix tiles
};

// "portable", "neon", "dotprod", "avx2", "avxvnni", "avx512", "vnni", "bf16", "amx"
std::string_view name_of(Isa isa);

// What this build has code for and this machine runs, worst first; never empty. For kAmx the
// kernel's permission is part of the question: asking here also obtains it for the process.
const std::vector<Isa>& available_isas();

// The named one; for an empty name the environment's SACCADE_CPU, and without that the best there
// is. kInvalid for a word that is no instruction set, kUnsupported when the machine lacks it.
Result<Isa> choose_isa(std::string_view name);

}  // namespace saccade::cpu
