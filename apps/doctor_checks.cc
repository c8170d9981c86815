#include "apps/doctor_checks.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/build_facts.h"
#include "apps/flags/serve_environment.h"
#include "base/host_memory.h"
#include "base/threads/processors.h"
#include "base/threads/thread_pool.h"
#include "model/checkpoint/checkpoint.h"
#include "ops/cpu/isa/isa.h"
#include "ops/cpu/read_bandwidth.h"
#include "ops/device.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value behind "key : value" in a file of such lines.
std::string proc_value(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

std::string gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / 0x1p30); }

using Findings = std::vector<Finding>;

void check_build(Findings& found) {
  Finding build{"build", "saccade", build_line(), Verdict::kFine, ""};
  if (!is_fast_build()) {
    build.verdict = Verdict::kSlow;
    build.advice = "this build checks itself; cmake --preset release makes one for use";
  }
  found.push_back(std::move(build));
}

void check_kernels(Findings& found) {
  std::string all;
  for (const cpu::Isa isa : cpu::available_isas())
    all += (all.empty() ? "" : ", ") + std::string(name_of(isa));
  // ARM's kernels say none.
  const std::string model = proc_value("/proc/cpuinfo", "model name");
  if (!model.empty()) found.push_back({"processor", "model", model, Verdict::kFine, ""});
  found.push_back({"processor", "instruction sets", all, Verdict::kFine, ""});
  const auto chosen = cpu::choose_isa("");
  if (!chosen) {
    found.push_back({"processor", "kernels", "none", Verdict::kWrong, chosen.error().message});
    return;
  }
  Finding kernels{"processor", "kernels", std::string(name_of(*chosen)), Verdict::kFine, ""};
  if (*chosen < cpu::available_isas().back()) {
    kernels.verdict = Verdict::kSlow;
    kernels.advice = "SACCADE_CPU asks for less than the processor has";
  } else if (*chosen == cpu::Isa::kPortable) {
    kernels.verdict = Verdict::kSlow;
    kernels.advice = "a processor with AVX2, AVX-512 or AMX computes many times faster";
  } else if (*chosen >= cpu::Isa::kAvx2 && *chosen != cpu::Isa::kAmx) {
    kernels.advice = "prompts and images would be faster with AMX (bf16 tiles)";
  }
  found.push_back(std::move(kernels));
}

void check_cores(Findings& found, const Processors& processors) {
  const double quota = processors.quota;
  const auto cores = static_cast<int>(processors.usable.size());
  Finding finding{"processor", "cores", std::to_string(cores), Verdict::kFine, ""};
  if (quota > 0) finding.value += fmt::format(", a control group gives {:.2f}", quota);
  if (quota > 0 && quota < cores) {
    finding.advice = fmt::format("threads beyond the quota would be stopped in turns: {} compute",
                                 processors.compute_threads());
  }
  found.push_back(std::move(finding));
  double load = 0;
  std::istringstream(first_line("/proc/loadavg")) >> load;
  Finding others{"processor", "load", fmt::format("{:.2f}", load), Verdict::kFine, ""};
  if (load > 0.5 * cores) {
    others.verdict = Verdict::kSlow;
    others.advice = "other programs are computing too";
  }
  found.push_back(std::move(others));
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor.empty()) return;
  Finding clock{"processor", "frequency governor", governor, Verdict::kFine, ""};
  if (governor == "powersave") clock.advice = "performance keeps the clock up between steps";
  found.push_back(std::move(clock));
}

Finding bandwidth_of(const Result<double>& measured, int cores) {
  Finding found{"memory", "measured read bandwidth", "not known", Verdict::kSlow, ""};
  if (!measured) {
    found.advice = measured.error().message;
    return found;
  }
  // Below a token a second of a small model nothing is served at a pace that anybody reads at.
  constexpr double kSmallModel = 4e9;
  const double tokens = *measured / kSmallModel;
  found.value = fmt::format("{:.1f} GB/s by {} threads", *measured / 1e9, cores);
  found.verdict = tokens < 1 ? Verdict::kSlow : Verdict::kFine;
  found.advice = fmt::format(
      "a token of one sequence reads all weights: at most {:.{}f} tokens/s of a model of 4 GB",
      tokens, tokens < 10 ? 2 : 0);
  return found;
}

void check_memory(Findings& found, const Processors& processors) {
  const auto cores = static_cast<int>(processors.usable.size());
  const auto pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  const double total = pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
  const auto available = static_cast<double>(available_host_bytes());
  Finding memory{"memory", "available", fmt::format("{} of {}", gib(available), gib(total)),
                 Verdict::kFine, ""};
  if (available < 2 * 0x1p30) {
    memory.verdict = Verdict::kWrong;
    memory.advice = "weights and cache need more than that but for the smallest models";
  }
  found.push_back(std::move(memory));
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  if (!limit.empty() && limit != "max")
    found.push_back({"memory", "limit of the control group", gib(std::stod(limit)), Verdict::kFine,
                     "the kernel ends what goes over it"});
  ThreadPool pool(std::max(1, cores));
  found.push_back(bandwidth_of(cpu::measure_read_bandwidth(pool), cores));
  if (const std::size_t nodes = processors.nodes.size(); nodes > 1)
    found.push_back({"memory", "NUMA nodes", std::to_string(nodes), Verdict::kFine,
                     fmt::format("--tensor-parallel-size {}: a rank a node, its threads and its "
                                 "share of weights and cache there",
                                 nodes)});
  const std::string huge = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (huge.find("[never]") != std::string::npos)
    found.push_back({"memory", "huge pages", "never", Verdict::kSlow,
                     "madvise in /sys/kernel/mm/transparent_hugepage/enabled saves page walks"});
}

void check_gpu(Findings& found) {
  const std::string driver = first_line("/proc/driver/nvidia/version");
  const auto device = make_cuda_device(0);
  Finding gpu{"gpu", "cuda", "", Verdict::kFine, ""};
  if (device) {
    gpu.value = (*device)->description();
  } else {
    gpu.value = "not used";
    gpu.advice = device.error().message;
  }
  found.push_back(std::move(gpu));
  found.push_back(
      {"gpu", "driver", driver.empty() ? "none is loaded" : driver, Verdict::kFine, ""});
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

void check_limits(Findings& found) {
  constexpr rlim_t kEnough = 4096;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  Finding open{"limits", "open files", limit_text(files.rlim_cur), Verdict::kFine, ""};
  if (files.rlim_cur < kEnough) {
    open.verdict = Verdict::kWrong;
    open.advice = "a connection is a file: ulimit -n 65536, or LimitNOFILE= in the unit";
  }
  found.push_back(std::move(open));
  rlimit locked{};
  ::getrlimit(RLIMIT_MEMLOCK, &locked);
  found.push_back({"limits", "locked memory", limit_text(locked.rlim_cur), Verdict::kFine, ""});
}

void check_hub(Findings& found) {
  const std::string cache = hub_cache_directory();
  std::error_code ignored;
  const bool there = fs::is_directory(cache, ignored);
  int models = 0;
  for (const auto& entry : fs::directory_iterator(cache, ignored))
    models += entry.path().filename().string().starts_with("models--") ? 1 : 0;
  found.push_back({"hub", "cache",
                   there ? fmt::format("{}, {} models", cache, models) : cache + " (not there yet)",
                   Verdict::kFine, ""});
  fs::path at = cache;
  while (!at.empty() && !fs::exists(at, ignored) && at != at.parent_path()) at = at.parent_path();
  std::error_code unknown;
  const fs::space_info disk = fs::space(at.empty() ? "." : at, unknown);
  if (!unknown)
    found.push_back(
        {"hub", "free disk", gib(static_cast<double>(disk.available)), Verdict::kFine, ""});
  found.push_back(
      {"hub", "HF_TOKEN", environment("HF_TOKEN").empty() ? "not set" : "set", Verdict::kFine, ""});
  if (environment_switch("HF_HUB_OFFLINE"))
    found.push_back({"hub", "HF_HUB_OFFLINE", "set", Verdict::kFine, "nothing is downloaded"});
}

void check_port(Findings& found, std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Finding finding{"network", fmt::format("port {}", port), "free", Verdict::kFine, ""};
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    finding.value = std::strerror(errno);
    finding.verdict = Verdict::kWrong;
    finding.advice = "--port N takes another, --port 0 a free one";
  }
  ::close(fd);
  found.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> check_machine(std::uint16_t port) {
  Findings found;
  const Processors processors = find_processors();
  check_build(found);
  check_kernels(found);
  check_cores(found, processors);
  check_memory(found, processors);
  check_gpu(found);
  check_limits(found);
  check_hub(found);
  check_port(found, port);
  return found;
}

}  // namespace saccade
