#include "base/host_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace saccade {
namespace {

// The number in a file of one line; -1 when there is none ("max").
std::int64_t bytes_in(const char* path) {
  std::ifstream file(path);
  std::int64_t number = -1;
  return file >> number ? number : -1;
}

}  // namespace

std::int64_t available_host_bytes() {
  std::int64_t available = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    std::int64_t kibibytes = 0;
    if (name == "MemAvailable:" && file >> kibibytes) available = kibibytes * 1024;
    file.ignore(256, '\n');
  }
  const std::int64_t limit = bytes_in("/sys/fs/cgroup/memory.max");
  const std::int64_t used = bytes_in("/sys/fs/cgroup/memory.current");
  if (limit >= 0 && used >= 0)
    available = std::min(available, std::max<std::int64_t>(0, limit - used));
  return available;
}

}  // namespace saccade
