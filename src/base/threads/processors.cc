#include "base/threads/processors.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <utility>

namespace saccade {
namespace {

// More than any machine has, and what a list may name.
constexpr int kMost = 8192;

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using Set = std::unique_ptr<cpu_set_t, FreeSet>;
constexpr std::size_t kSetBytes = CPU_ALLOC_SIZE(kMost);

Set empty_set() {
  Set set(CPU_ALLOC(kMost));
  CPU_ZERO_S(kSetBytes, set.get());
  return set;
}

ProcessorSet affinity() {
  const Set set = empty_set();
  ProcessorSet found;
  if (::sched_getaffinity(0, kSetBytes, set.get()) != 0) return found;
  for (int each = 0; each < kMost; ++each) {
    if (CPU_ISSET_S(static_cast<std::size_t>(each), kSetBytes, set.get())) found.push_back(each);
  }
  return found;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<double> number_in(const std::string& path) {
  std::istringstream line(first_line(path));
  double number = 0;
  if (!(line >> number)) return std::nullopt;
  return number;
}

// The least of what is found, and of `quota`; 0 is none.
void lessen(double& quota, double found) {
  if (found > 0 && (quota == 0 || found < quota)) quota = found;
}

// A group's own limit: cpu.max of version 2, two files of version 1.
double quota_of(const std::string& group) {
  std::istringstream line(first_line(group + "/cpu.max"));
  std::string quota;
  double period = 0;
  if (line >> quota >> period && quota != "max" && period > 0)
    return std::strtod(quota.c_str(), nullptr) / period;
  const auto micros = number_in(group + "/cpu.cfs_quota_us");
  const auto period_micros = number_in(group + "/cpu.cfs_period_us");
  if (micros && period_micros && *micros > 0 && *period_micros > 0) return *micros / *period_micros;
  return 0;
}

// The process's group and all those it is in. Inside a container the path may be the host's, of
// which only the end of its tree can be seen: the root of what is mounted.
double find_quota(const std::string& root) {
  double quota = 0;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t controllers = line.find(':') + 1;
    const std::size_t path = line.find(':', controllers);
    if (controllers == 0 || path == std::string::npos) continue;
    const std::string names = line.substr(controllers, path - controllers);
    std::string mount;
    if (names.empty())
      mount = root + "/sys/fs/cgroup";
    else if (("," + names + ",").find(",cpu,") != std::string::npos)
      mount = root + "/sys/fs/cgroup/" + names;
    else
      continue;
    std::string group = line.substr(path + 1);
    while (true) {
      lessen(quota, quota_of(mount + group));
      const std::size_t slash = group.rfind('/');
      if (slash == std::string::npos) break;
      group.resize(slash);
    }
  }
  lessen(quota, quota_of(root + "/sys/fs/cgroup"));
  return quota;
}

std::vector<ProcessorSet> find_nodes(const std::string& root, const ProcessorSet& usable) {
  std::vector<std::pair<int, ProcessorSet>> found;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    if (!name.starts_with("node") ||
        std::from_chars(name.data() + 4, name.data() + name.size(), number).ec != std::errc())
      continue;
    const auto all = parse_processors(first_line(entry.path().string() + "/cpulist"));
    if (!all) continue;
    ProcessorSet ours;
    std::ranges::set_intersection(*all, usable, std::back_inserter(ours));
    if (!ours.empty()) found.emplace_back(number, std::move(ours));
  }
  std::ranges::sort(found);
  std::vector<ProcessorSet> nodes;
  for (auto& [number, processors] : found) nodes.push_back(std::move(processors));
  if (nodes.empty()) nodes.push_back(usable);
  return nodes;
}

}  // namespace

int Processors::compute_threads() const {
  const int most = std::max(1, static_cast<int>(usable.size()));
  return quota > 0 ? std::clamp(static_cast<int>(quota), 1, most) : most;
}

Processors find_processors(const std::string& root) {
  Processors processors;
  processors.usable = affinity();
  processors.nodes = find_nodes(root, processors.usable);
  processors.quota = find_quota(root);
  return processors;
}

std::optional<ProcessorSet> parse_processors(std::string_view text) {
  ProcessorSet found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const char* const part_end = part.data() + part.size();
    int first = -1;
    auto read = std::from_chars(part.data(), part_end, first);
    int last = first;
    if (read.ec == std::errc() && read.ptr != part_end && *read.ptr == '-')
      read = std::from_chars(read.ptr + 1, part_end, last);
    if (read.ec != std::errc() || read.ptr != part_end || first < 0 || last < first ||
        last >= kMost)
      return std::nullopt;
    for (int each = first; each <= last; ++each) found.push_back(each);
  }
  if (found.empty()) return std::nullopt;
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

std::string format_processors(const ProcessorSet& processors) {
  std::string text;
  for (std::size_t i = 0; i < processors.size();) {
    std::size_t last = i;
    while (last + 1 < processors.size() && processors[last + 1] == processors[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", processors[i]);
    if (last > i) text += fmt::format("-{}", processors[last]);
    i = last + 1;
  }
  return text;
}

Result<void> stay_on(const ProcessorSet& processors) {
  const Set set = empty_set();
  for (const int each : processors) {
    if (each >= 0 && each < kMost) CPU_SET_S(static_cast<std::size_t>(each), kSetBytes, set.get());
  }
  if (::sched_setaffinity(0, kSetBytes, set.get()) == 0) return {};
  return fail(ErrorCode::kInvalid, "processors {}: {}", format_processors(processors),
              std::strerror(errno));
}

StayingOn::StayingOn(const ProcessorSet& processors) {
  if (processors.empty()) return;
  before_ = affinity();
  if (!stay_on(processors)) before_.clear();
}

StayingOn::~StayingOn() {
  if (!before_.empty()) static_cast<void>(stay_on(before_));
}

}  // namespace saccade
