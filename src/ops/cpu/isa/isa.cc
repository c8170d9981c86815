#include "ops/cpu/isa/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace saccade::cpu {
namespace {

constexpr Isa kAll[] = {Isa::kPortable, Isa::kNeon, Isa::kDotprod, Isa::kAvx2, Isa::kAvxVnni,
                        Isa::kAvx512,   Isa::kVnni, Isa::kBf16,    Isa::kAmx};

#if defined(__x86_64__)

// What this build has code for.
constexpr Isa kBuilt[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512,
                          Isa::kVnni,     Isa::kBf16, Isa::kAmx};

// Linux hands out tile state (8 KiB a thread) to processes that ask for it. Fails where the kernel
// or a hypervisor hides the unit, whatever CPUID says.
bool obtain_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// GCC's __builtin_cpu_supports knows no AMX before GCC 13.
bool has_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool tile = (edx >> 24 & 1) != 0;
  const bool bf16 = (edx >> 22 & 1) != 0;
  const bool int8 = (edx >> 25 & 1) != 0;
  return tile && bf16 && int8;
}

// GCC's knows no AVX-VNNI at all.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}

bool machine_has(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case Isa::kAvxVnni:
      return has_avx_vnni();
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::kVnni:
      return __builtin_cpu_supports("avx512vnni");
    case Isa::kBf16:
      return __builtin_cpu_supports("avx512bf16");
    case Isa::kAmx:
      return has_amx() && obtain_tiles();
    default:
      return false;
  }
}

#elif defined(__aarch64__)

constexpr Isa kBuilt[] = {Isa::kPortable, Isa::kNeon, Isa::kDotprod};

bool machine_has(Isa isa) {
  return isa != Isa::kDotprod || (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

#else

constexpr Isa kBuilt[] = {Isa::kPortable};

bool machine_has(Isa) { return true; }

#endif

std::string list(const auto& isas) {
  std::string text;
  for (const Isa isa : isas) text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(isa));
  return text;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kNeon:
      return "neon";
    case Isa::kDotprod:
      return "dotprod";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avxvnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kVnni:
      return "vnni";
    case Isa::kBf16:
      return "bf16";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

const std::vector<Isa>& available_isas() {
  static const std::vector<Isa> available = [] {
    std::vector<Isa> found;
    for (const Isa isa : kBuilt) {
      if (machine_has(isa))
        found.push_back(isa);
      else if (isa != Isa::kAvxVnni)  // which nothing after it includes
        break;
    }
    return found;
  }();
  return available;
}

Result<Isa> choose_isa(std::string_view name) {
  std::string_view source = "instruction set";
  if (name.empty()) {
    const char* forced = std::getenv("SACCADE_CPU");
    if (forced == nullptr || *forced == '\0') return available_isas().back();
    name = forced;
    source = "SACCADE_CPU";
  }
  for (const Isa isa : kAll) {
    if (name != name_of(isa)) continue;
    if (std::ranges::find(available_isas(), isa) != available_isas().end()) return isa;
    return fail(ErrorCode::kUnsupported, "{} {} is not what this machine has: {}", source, name,
                list(available_isas()));
  }
  return fail(ErrorCode::kInvalid, "{} \"{}\" is none of {}", source, name, list(kAll));
}

}  // namespace saccade::cpu
