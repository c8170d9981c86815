#include "ops/cuda/libraries/library_places.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace saccade::cuda {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// Folders of `parent` whose names begin so; the latest name first.
std::vector<fs::path> folders_of(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator at(parent, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    if (at->path().filename().string().starts_with(prefix) && at->is_directory(ignored))
      found.push_back(at->path());
  }
  std::ranges::sort(found, std::greater<>());
  return found;
}

}  // namespace

Result<OpenedLibrary> OpenedLibrary::open(const std::string& path) {
  OpenedLibrary library;
  library.path_ = path;
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return fail(ErrorCode::kNotFound, "{}", why == nullptr ? path.c_str() : why);
  }
  library.handle_ = std::shared_ptr<void>(handle, [](void* opened) { dlclose(opened); });
  return library;
}

Result<void> OpenedLibrary::lacks(const char* name) const {
  return fail(ErrorCode::kNotFound, "{} has no {}", path_, name);
}

void* OpenedLibrary::symbol(const char* name) const { return dlsym(handle_.get(), name); }

std::string cuda_libraries_variable() { return variable("SACCADE_CUDA_LIBS"); }

std::vector<std::string> library_places(std::string_view file, const std::string& said) {
  if (!said.empty()) {
    std::error_code ignored;
    return {fs::is_directory(said, ignored) ? (fs::path(said) / file).string() : said};
  }
  std::vector<std::string> places = {std::string(file)};
  const auto add = [&](const fs::path& folder) {
    std::error_code ignored;
    const fs::path path = folder / file;
    if (fs::exists(path, ignored)) places.push_back(path.string());
  };
  std::vector<fs::path> toolkits;
  if (const std::string home = variable("CUDA_HOME"); !home.empty()) toolkits.emplace_back(home);
  for (const fs::path& toolkit : folders_of("/usr/local", "cuda")) toolkits.push_back(toolkit);
  for (const fs::path& toolkit : toolkits) {
    add(toolkit / "lib64");
    add(toolkit / "lib");
    add(toolkit / "targets/x86_64-linux/lib");
  }
  std::vector<fs::path> prefixes;
  if (const std::string venv = variable("VIRTUAL_ENV"); !venv.empty()) prefixes.emplace_back(venv);
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr"});
  if (const std::string home = variable("HOME"); !home.empty())
    prefixes.push_back(fs::path(home) / ".local");
  for (const fs::path& prefix : prefixes) {
    for (const fs::path& python : folders_of(prefix / "lib", "python3"))
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const char* folder : {"nvidia/cu13/lib", "nvidia/nccl/lib"})
          add(python / packages / folder);
  }
  return places;
}

Result<OpenedLibrary> open_first(const std::vector<std::string>& places) {
  std::string tried;
  for (const std::string& place : places) {
    auto opened = OpenedLibrary::open(place);
    if (opened) return opened;
    tried += (tried.empty() ? "" : "; ") + opened.error().message;
  }
  return fail(ErrorCode::kNotFound, "{}", tried);
}

}  // namespace saccade::cuda
