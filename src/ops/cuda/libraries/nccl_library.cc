#include "ops/cuda/libraries/nccl_library.h"

#include <filesystem>
#include <utility>

namespace saccade::cuda {
namespace {

namespace fs = std::filesystem;

constexpr int kLeastNccl = 21800;  // 2.18: calls that do not block, as the API above takes them

std::string text(const char* from) { return from == nullptr ? std::string() : std::string(from); }

}  // namespace

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::open(OpenedLibrary library) {
  auto opened = std::make_shared<NcclLibrary>();
  nccl::Functions& functions = opened->functions_;
#define SACCADE_FIND(name) TRY_DO(library.find(#name, functions.name))
  SACCADE_FIND(ncclGetVersion);
  if (functions.ncclGetVersion(&opened->version_) != nccl::kSuccess ||
      opened->version_ < kLeastNccl)
    return fail(ErrorCode::kUnsupported, "{} is of version {}, and {} is the least", library.path(),
                opened->version_, kLeastNccl);
  SACCADE_FIND(ncclGetErrorString);
  SACCADE_FIND(ncclGetLastError);
  SACCADE_FIND(ncclGetUniqueId);
  SACCADE_FIND(ncclCommInitRankConfig);
  SACCADE_FIND(ncclCommFinalize);
  SACCADE_FIND(ncclCommDestroy);
  SACCADE_FIND(ncclCommAbort);
  SACCADE_FIND(ncclCommGetAsyncError);
  SACCADE_FIND(ncclAllReduce);
  SACCADE_FIND(ncclGroupStart);
  SACCADE_FIND(ncclGroupEnd);
#undef SACCADE_FIND
  opened->library_ = std::move(library);
  return std::shared_ptr<const NcclLibrary>(std::move(opened));
}

std::string NcclLibrary::description() const {
  return fmt::format("NCCL {}.{}.{} ({})", version_ / 10000, version_ / 100 % 100, version_ % 100,
                     library_.path());
}

std::string NcclLibrary::meaning(nccl::Status status, nccl::Comm comm) const {
  const std::string last = text(functions_.ncclGetLastError(comm));
  return fmt::format("{} (status {}){}", text(functions_.ncclGetErrorString(status)), status,
                     last.empty() ? "" : ": " + last);
}

Result<std::shared_ptr<const NcclLibrary>> find_nccl(const std::string& said) {
  const std::string where = said.empty() ? cuda_libraries_variable() : said;
  if (where == "none")
    return fail(ErrorCode::kUnsupported,
                "ranks on GPUs add up with NCCL, and NVIDIA's libraries were refused (none)");
  std::vector<std::string> places;
  std::error_code ignored;
  if (where.empty()) {
    places = library_places(kNcclFile, {});
  } else if (fs::is_directory(where, ignored)) {
    // Python's packages have a folder a library.
    places = {(fs::path(where) / kNcclFile).string(),
              (fs::path(where) / "../../nccl/lib" / kNcclFile).string()};
  } else if (fs::path(where).filename().string().starts_with("libnccl")) {
    places = {where};
  } else {
    places = {(fs::path(where).parent_path() / kNcclFile).string()};
  }
  auto opened = open_first(places);
  if (!opened)
    return fail(ErrorCode::kNotFound,
                "ranks on GPUs add up with NCCL, and there is none ({}): install nvidia-nccl-cu13 "
                "of PyPI, or name its folder with --cuda-libraries",
                opened.error().message);
  return NcclLibrary::open(*std::move(opened));
}

}  // namespace saccade::cuda
