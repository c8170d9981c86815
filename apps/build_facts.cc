#include "apps/build_facts.h"

#include <fmt/format.h>

#include "build_commit.h"

namespace saccade {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

}  // namespace

bool is_fast_build() {
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    defined(NDEBUG)
  return true;
#else
  return false;
#endif
}

std::string build_line() {
  const std::string commit = SACCADE_COMMIT;
  return fmt::format("{} ({}{}{})", SACCADE_VERSION,
                     commit.empty() ? "" : "commit " + commit + ", ", kCompiler,
                     is_fast_build() ? "" : ", with checks, not for speed");
}

std::string version_text() {
  std::string features;
#if defined(__x86_64__)
  features += "kernels portable avx2 avx512 vnni bf16 amx";
#elif defined(__aarch64__)
  features += "kernels portable neon dotprod";
#else
  features += "kernels portable";
#endif
  features += SACCADE_HAS_CUDA ? ", cuda" : ", no cuda";
  features += SACCADE_HAS_PARQUET ? ", parquet" : ", no parquet";
  return fmt::format("saccade {}\nfeatures: {}\n", build_line(), features);
}

}  // namespace saccade
