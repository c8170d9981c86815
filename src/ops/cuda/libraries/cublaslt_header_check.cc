// cublaslt_api.h against NVIDIA's header: compiled where the toolkit has it, and nowhere run.
#include <cublasLt.h>

#include <type_traits>

#include "ops/cuda/libraries/cublaslt_api.h"

namespace saccade::cuda::cublaslt {
namespace {

static_assert(kSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(kNotInitialized == CUBLAS_STATUS_NOT_INITIALIZED);
static_assert(kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kCompute32F == CUBLAS_COMPUTE_32F);
static_assert(kR32F == CUDA_R_32F);
static_assert(kR16BF == CUDA_R_16BF);
static_assert(kR8FE4M3 == CUDA_R_8F_E4M3);
static_assert(kOpT == CUBLAS_OP_T);
static_assert(kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kDescEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(kDescBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kEpilogueDefault == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(kEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(kEpilogueGeluBias == CUBLASLT_EPILOGUE_GELU_BIAS);
static_assert(sizeof(cublasLtEpilogue_t) == sizeof(std::int32_t));
static_assert(kDescAScalePointer == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
static_assert(kDescAScalePointer + 1 == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(kDescAScaleMode == CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
static_assert(kDescAScaleMode + 1 == CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
static_assert(kOuterVec32F == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
static_assert(kVec128_32F == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
static_assert(kBlk128x128_32F == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
static_assert(sizeof(cublasLtMatmulMatrixScale_t) == sizeof(std::int32_t));
static_assert(kPrefMaxWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kPrefReductionSchemeMask == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(kPrefMinAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kPrefMinAlignmentA + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kConfigSplitK == CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
static_assert(kConfigReductionScheme == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);

static_assert(kReductionComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(HeuristicResult, workspace) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(sizeof(cublasStatus_t) == sizeof(Status) &&
              sizeof(cublasComputeType_t) == sizeof(int) && sizeof(cudaDataType) == sizeof(int) &&
              sizeof(cublasLtMatmulDescAttributes_t) == sizeof(int));

// As many arguments, and each passed as ours: pointers for pointers, integers of one size.
template <typename Ours, typename Theirs>
constexpr bool kCublasPassedAlike =
    (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) ||
    (!std::is_pointer_v<Ours> && !std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs));
template <typename Ours, typename Theirs>
struct AlikeCublas : std::false_type {};
template <typename R, typename S, typename... Ours, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct AlikeCublas<R (*)(Ours...), S (*)(Theirs...)>
    : std::bool_constant<sizeof(R) == sizeof(S) && (kCublasPassedAlike<Ours, Theirs> && ...)> {};

#define SACCADE_ALIKE(name) \
  static_assert(AlikeCublas<decltype(Functions::name), decltype(&::name)>::value)
SACCADE_ALIKE(cublasLtGetVersion);
SACCADE_ALIKE(cublasLtCreate);
SACCADE_ALIKE(cublasLtDestroy);
SACCADE_ALIKE(cublasLtMatmulDescCreate);
SACCADE_ALIKE(cublasLtMatmulDescDestroy);
SACCADE_ALIKE(cublasLtMatmulDescSetAttribute);
SACCADE_ALIKE(cublasLtMatrixLayoutCreate);
SACCADE_ALIKE(cublasLtMatrixLayoutDestroy);
SACCADE_ALIKE(cublasLtMatmulPreferenceCreate);
SACCADE_ALIKE(cublasLtMatmulPreferenceDestroy);
SACCADE_ALIKE(cublasLtMatmulPreferenceSetAttribute);
SACCADE_ALIKE(cublasLtMatmulAlgoGetHeuristic);
SACCADE_ALIKE(cublasLtMatmulAlgoConfigGetAttribute);
SACCADE_ALIKE(cublasLtMatmul);

}  // namespace
}  // namespace saccade::cuda::cublaslt
