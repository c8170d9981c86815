// Where a library of NVIDIA's may lie on this machine, and opening it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade::cuda {

// A library that was opened at run time; closed with it.
class OpenedLibrary {
 public:
  OpenedLibrary() = default;  // none
  static Result<OpenedLibrary> open(const std::string& path);

  const std::string& path() const { return path_; }
  // Null: it has none of that name.
  void* symbol(const char* name) const;
  // kNotFound where there is none.
  template <typename Function>
  Result<void> find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
    return function != nullptr ? Result<void>() : lacks(name);
  }

 private:
  Result<void> lacks(const char* name) const;

  std::string path_;
  std::shared_ptr<void> handle_;
};

// What SACCADE_CUDA_LIBS says: a folder, a file, "none", or empty for nothing said.
std::string cuda_libraries_variable();

// The paths to try for `file` ("libcublasLt.so.13"), in order. `said`: a folder or a file, and then
// nothing else is tried. Otherwise the loader's own path; toolkits (CUDA_HOME, /usr/local/cuda*);
// and the packages that Python's installers put beside torch (site-packages/nvidia/cu13/lib and
// nccl/lib).
std::vector<std::string> library_places(std::string_view file, const std::string& said);

// The first that opens. kNotFound, with each that was tried and why not.
Result<OpenedLibrary> open_first(const std::vector<std::string>& places);

}  // namespace saccade::cuda
