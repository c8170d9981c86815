// What the kernel and nvidia-smi say about this machine and a server on it.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench/load/server/server_probe.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

std::string value_of(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

std::int64_t leading_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string output_of(const char* command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command, "r"), pclose);
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 4096> buffer;
  while (const std::size_t read = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), read);
  return text;
}

// Inode of the socket that listens on `port`, from one of the kernel's tables; 0: none.
std::uint64_t listening_inode(const char* table, std::uint16_t port) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits, user, timeout;
    std::uint64_t inode = 0;
    if (!(fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
          timeout >> inode))
      continue;
    const std::size_t colon = local.find(':');
    if (state != "0A" || colon == std::string::npos) continue;
    unsigned found = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), found, 16);
    if (found == port) return inode;
  }
  return 0;
}

bool holds_socket(const fs::path& descriptors, const std::string& wanted) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(descriptors, code)) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone).string() == wanted) return true;
  }
  return false;
}

}  // namespace

std::optional<int> listening_process(std::string_view host, std::uint16_t port) {
  if (host != "127.0.0.1" && host != "localhost" && host != "::1" && host != "0.0.0.0")
    return std::nullopt;
  std::uint64_t inode = listening_inode("/proc/net/tcp", port);
  if (inode == 0) inode = listening_inode("/proc/net/tcp6", port);
  if (inode == 0) return std::nullopt;
  const std::string wanted = fmt::format("socket:[{}]", inode);
  std::error_code code;
  for (const auto& entry : fs::directory_iterator("/proc", code)) {
    const std::int64_t pid = leading_number(entry.path().filename().string());
    if (pid > 0 && holds_socket(entry.path() / "fd", wanted)) return static_cast<int>(pid);
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, double>> process_memory(int pid) {
  const std::string status = fmt::format("/proc/{}/status", pid);
  const std::string resident = value_of(status.c_str(), "VmRSS");
  if (resident.empty()) return {};
  const std::string peak = value_of(status.c_str(), "VmHWM");
  return {{"resident_bytes", 1024.0 * static_cast<double>(leading_number(resident))},
          {"peak_resident_bytes", 1024.0 * static_cast<double>(leading_number(peak))}};
}

std::vector<std::pair<std::string, double>> gpu_readings() {
  constexpr std::array<std::string_view, 4> kNames = {"memory_used_bytes", "utilization_percent",
                                                      "power_watts", "clock_mhz"};
  const std::string text = output_of(
      "nvidia-smi --query-gpu=memory.used,utilization.gpu,power.draw,clocks.sm "
      "--format=csv,noheader,nounits 2>/dev/null");
  std::vector<std::pair<std::string, double>> readings;
  std::istringstream lines(text);
  std::string line;
  for (int gpu = 0; std::getline(lines, line); ++gpu) {
    std::istringstream fields(line);
    std::string field;
    for (std::size_t i = 0; i < kNames.size() && std::getline(fields, field, ','); ++i) {
      const std::size_t begin = std::min(field.find_first_not_of(' '), field.size());
      double value = 0;
      const auto [end, code] =
          std::from_chars(field.data() + begin, field.data() + field.size(), value);
      if (code != std::errc()) continue;  // "[N/A]"
      if (i == 0) value *= 1 << 20;
      readings.emplace_back(fmt::format("gpu{}_{}", gpu, kNames[i]), value);
    }
  }
  return readings;
}

std::string gpu_description() {
  return output_of(
      "nvidia-smi --query-gpu=index,name,driver_version,memory.total,memory.used "
      "--format=csv 2>/dev/null");
}

HostFacts host_facts() {
  HostFacts host;
  utsname names{};
  if (uname(&names) == 0) {
    host.name = names.nodename;
    host.kernel = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
  }
  host.cpu = value_of("/proc/cpuinfo", "model name");
  host.cores = static_cast<std::int32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  host.memory_bytes = 1024 * leading_number(value_of("/proc/meminfo", "MemTotal"));
  return host;
}

}  // namespace saccade::bench
