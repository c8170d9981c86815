#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace saccade {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed. %s\n", file, line, condition, detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace saccade
