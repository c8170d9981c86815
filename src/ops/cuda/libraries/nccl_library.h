// NCCL, which adds up over GPUs: found and opened at run time.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "ops/cuda/libraries/library_places.h"
#include "ops/cuda/libraries/nccl_api.h"

namespace saccade::cuda {

// Any thread.
class NcclLibrary {
 public:
  // kNotFound: a function is missing. kUnsupported: it is too old.
  static Result<std::shared_ptr<const NcclLibrary>> open(OpenedLibrary library);

  std::string description() const;  // "NCCL 2.32.3 (/usr/lib/...)"
  const nccl::Functions& calls() const { return functions_; }
  // What a status that is not kSuccess means, in the library's own words. `comm` may be null.
  std::string meaning(nccl::Status status, nccl::Comm comm) const;

 private:
  OpenedLibrary library_;
  nccl::Functions functions_ = {};
  int version_ = 0;
};

// The file's name.
constexpr const char* kNcclFile = "libnccl.so.2";

// By `said`, as CudaSettings::libraries, or where the variable or the usual places have it; beside
// a file of another library too. kNotFound with what was tried and what to install.
Result<std::shared_ptr<const NcclLibrary>> find_nccl(const std::string& said);

}  // namespace saccade::cuda
