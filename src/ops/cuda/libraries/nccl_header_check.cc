// nccl_api.h against NVIDIA's header: compiled where the toolkit has it, and nowhere run.
#include <nccl.h>

#include <type_traits>

#include "ops/cuda/libraries/nccl_api.h"

namespace saccade::cuda::nccl {
namespace {

static_assert(kSuccess == ncclSuccess && kInProgress == ncclInProgress);
static_assert(kFloat32 == ncclFloat32 && kBfloat16 == ncclBfloat16 && kSum == ncclSum);
static_assert(sizeof(Status) == sizeof(ncclResult_t) && sizeof(int) == sizeof(ncclDataType_t) &&
              sizeof(int) == sizeof(ncclRedOp_t));
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size) &&
              offsetof(Config, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(Config, version) == offsetof(ncclConfig_t, version) &&
              offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(sizeof(Config) <= sizeof(ncclConfig_t) && Config{}.magic == NCCL_API_MAGIC &&
              Config{}.version == NCCL_VERSION(2, 14, 0));

// As many arguments, and each passed as ours: pointers for pointers, all else of one size.
template <typename Ours, typename Theirs>
constexpr bool kNcclPassedAlike =
    (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) ||
    (!std::is_pointer_v<Ours> && !std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs));
template <typename Ours, typename Theirs>
struct AlikeNccl : std::false_type {};
template <typename R, typename S, typename... Ours, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct AlikeNccl<R (*)(Ours...), S (*)(Theirs...)>
    : std::bool_constant<sizeof(R) == sizeof(S) && (kNcclPassedAlike<Ours, Theirs> && ...)> {};

#define SACCADE_ALIKE(name) \
  static_assert(AlikeNccl<decltype(Functions::name), decltype(&::name)>::value)
SACCADE_ALIKE(ncclGetVersion);
SACCADE_ALIKE(ncclGetErrorString);
SACCADE_ALIKE(ncclGetLastError);
SACCADE_ALIKE(ncclGetUniqueId);
SACCADE_ALIKE(ncclCommInitRankConfig);
SACCADE_ALIKE(ncclCommFinalize);
SACCADE_ALIKE(ncclCommDestroy);
SACCADE_ALIKE(ncclCommAbort);
SACCADE_ALIKE(ncclCommGetAsyncError);
SACCADE_ALIKE(ncclAllReduce);
SACCADE_ALIKE(ncclGroupStart);
SACCADE_ALIKE(ncclGroupEnd);

}  // namespace
}  // namespace saccade::cuda::nccl
