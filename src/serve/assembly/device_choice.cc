#include "serve/assembly/device_choice.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/threads/thread_pool.h"
#include "ops/team/cuda_ranks.h"
#include "ops/team/team_device.h"

namespace saccade::serve {
namespace {

// Of a call on ranks that are GPUs: the longest are steps of seconds, and weights on their way from
// a slow disk.
constexpr std::chrono::minutes kRankPatience{5};

// All threads of a pool but the caller's, for good.
void keep_on(ThreadPool& pool, const ProcessorSet& processors) {
  pool.run([&](int worker) {
    if (worker == 0) return;
    if (const Result<void> went = stay_on(processors); !went)
      log::warning("{}", went.error().message);
  });
}

Result<std::unique_ptr<Device>> make_cpu_ranks(int threads, int ranks,
                                               const std::vector<ProcessorSet>& processors) {
  if (threads == 0) threads = find_processors().compute_threads();
  if (threads < ranks)
    log::warning("{} ranks on {} compute threads: they wait for each other", ranks, threads);
  std::vector<std::unique_ptr<Device>> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    TRY(auto device, make_cpu_device(std::max(1, threads / ranks)));
    if (!processors.empty()) {
      const ProcessorSet& own = processors[static_cast<std::size_t>(rank)];
      keep_on(device->pool(), own);
      log::info("rank {}: {} thread{} on processors {}", rank, device->pool().size(),
                device->pool().size() == 1 ? "" : "s", format_processors(own));
    }
    devices.push_back(std::move(device));
  }
  auto team = std::make_unique<TeamDevice>(std::move(devices), make_thread_collectives(ranks));
  if (!processors.empty())
    team->team().run([&](int rank) {
      if (rank > 0) static_cast<void>(stay_on(processors[static_cast<std::size_t>(rank)]));
    });
  return team;
}

Result<std::unique_ptr<Device>> make_gpu_ranks(const DeviceChoice& choice, int ranks) {
  if (choice.index > 0)
    return fail(ErrorCode::kInvalid,
                "device cuda:{}: {} ranks take GPUs from the first on; say cuda, and which are the "
                "first with CUDA_VISIBLE_DEVICES",
                choice.index, ranks);
  TRY(CudaRanks made, make_cuda_ranks(ranks, choice.cuda));
  return std::make_unique<TeamDevice>(std::move(made.devices), std::move(made.collectives),
                                      kRankPatience);
}

}  // namespace

Result<DeviceChoice> parse_device(std::string_view text) {
  using Kind = DeviceChoice::Kind;
  if (text == "auto") return DeviceChoice{Kind::kAuto, 0};
  if (text == "cpu") return DeviceChoice{Kind::kCpu, 0};
  if (text == "cuda") return DeviceChoice{Kind::kCuda, 0};
  constexpr std::string_view kNumbered = "cuda:";
  if (text.starts_with(kNumbered)) {
    constexpr int kMaxDevices = 1024;
    const std::string_view digits = text.substr(kNumbered.size());
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc{} && end == digits.data() + digits.size() && index >= 0 &&
        index < kMaxDevices)
      return DeviceChoice{Kind::kCuda, index};
  }
  return fail(ErrorCode::kInvalid, "device {}: want auto, cpu, cuda or cuda:N", text);
}

Result<std::unique_ptr<Device>> make_device(const DeviceChoice& choice, int threads) {
  if (choice.kind == DeviceChoice::Kind::kCuda) return make_cuda_device(choice.index, choice.cuda);
  if (choice.kind == DeviceChoice::Kind::kAuto) {
    auto device = make_cuda_device(0, choice.cuda);
    if (device) return device;
    std::error_code ignored;
    if (std::filesystem::exists("/proc/driver/nvidia/version", ignored))
      log::warning("--device auto takes the CPU: {}", device.error().message);
  }
  return make_cpu_device(threads);
}

Result<std::unique_ptr<Device>> make_ranks(const DeviceChoice& choice, int threads, int ranks,
                                           const std::vector<ProcessorSet>& processors) {
  if (ranks == 1) return make_device(choice, threads);
  if (choice.kind == DeviceChoice::Kind::kCpu) return make_cpu_ranks(threads, ranks, processors);
  if (choice.kind == DeviceChoice::Kind::kCuda) return make_gpu_ranks(choice, ranks);
  // The kind that one rank would take: with too few GPUs nobody wants the CPU instead.
  TRY(const auto one, make_device(choice, 1));
  return one->name() == "cuda" ? make_gpu_ranks(choice, ranks)
                               : make_cpu_ranks(threads, ranks, processors);
}

}  // namespace saccade::serve
