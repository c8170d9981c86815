#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace saccade {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  // Compiled in a batch, a file is known by its way from there: folder/../../src/x.cc.
  std::string_view path = file;
  if (const std::size_t back = path.rfind("../"); back != path.npos) path.remove_prefix(back + 3);
  std::fprintf(stderr, "%.*s:%d: CHECK(%s) failed. %s\n", static_cast<int>(path.size()),
               path.data(), line, condition, detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace saccade
