// What is called of cuBLASLt, declared here: it is opened at run time, and its header comes with a
// package of 423 MB that nothing else is wanted of. Names and values are those of cublasLt.h and
// cublas_api.h of CUDA 13; cublaslt_header_check.cc holds them to those headers where the build has
// them.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace saccade::cuda::cublaslt {

using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kNotInitialized = 1;
constexpr Status kNotSupported = 15;

constexpr int kCompute32F = 68;
constexpr int kR32F = 0;
constexpr int kR16BF = 14;
constexpr int kR8FE4M3 = 28;
constexpr std::int32_t kOpT = 1;

constexpr int kDescTransA = 3;  // cublasLtMatmulDescAttributes_t
constexpr int kDescEpilogue = 7;
constexpr int kDescBiasPointer = 8;
constexpr int kDescAScalePointer = 17;    // and B: 18
constexpr int kDescAScaleMode = 31;       // and B: 32
constexpr std::int32_t kOuterVec32F = 3;  // cublasLtMatmulMatrixScale_t
constexpr std::int32_t kVec128_32F = 4;
constexpr std::int32_t kBlk128x128_32F = 5;
constexpr std::int32_t kEpilogueDefault = 1;  // cublasLtEpilogue_t
constexpr std::int32_t kEpilogueBias = 4;     // of D's type
constexpr std::int32_t kEpilogueGeluBias = 36;
constexpr int kPrefMaxWorkspace = 1;  // cublasLtMatmulPreferenceAttributes_t
constexpr int kPrefReductionSchemeMask = 3;
constexpr int kPrefMinAlignmentA = 5;  // and B, C, D: 6, 7, 8
constexpr int kConfigSplitK = 2;       // cublasLtMatmulAlgoConfigAttributes_t
constexpr int kConfigReductionScheme = 3;
constexpr std::int32_t kReductionComputeType = 2;  // cublasLtReductionScheme_t: of a mask, too

struct Algorithm {
  std::uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

using Handle = void*;
using Desc = void*;
using Layout = void*;
using Preference = void*;

// The functions by their names in the library.
struct Functions {
  std::size_t (*cublasLtGetVersion)();
  Status (*cublasLtCreate)(Handle*);
  Status (*cublasLtDestroy)(Handle);
  Status (*cublasLtMatmulDescCreate)(Desc*, int compute, int scale);
  Status (*cublasLtMatmulDescDestroy)(Desc);
  Status (*cublasLtMatmulDescSetAttribute)(Desc, int attribute, const void*, std::size_t);
  Status (*cublasLtMatrixLayoutCreate)(Layout*, int type, std::uint64_t rows, std::uint64_t cols,
                                       std::int64_t stride);
  Status (*cublasLtMatrixLayoutDestroy)(Layout);
  Status (*cublasLtMatmulPreferenceCreate)(Preference*);
  Status (*cublasLtMatmulPreferenceDestroy)(Preference);
  Status (*cublasLtMatmulPreferenceSetAttribute)(Preference, int attribute, const void*,
                                                 std::size_t);
  Status (*cublasLtMatmulAlgoGetHeuristic)(Handle, Desc, Layout a, Layout b, Layout c, Layout d,
                                           Preference, int most, HeuristicResult*, int* found);
  Status (*cublasLtMatmulAlgoConfigGetAttribute)(const Algorithm*, int attribute, void*,
                                                 std::size_t, std::size_t* written);
  Status (*cublasLtMatmul)(Handle, Desc, const void* alpha, const void* a, Layout, const void* b,
                           Layout, const void* beta, const void* c, Layout, void* d, Layout,
                           const Algorithm*, void* workspace, std::size_t, CUstream_st*);
};

}  // namespace saccade::cuda::cublaslt
