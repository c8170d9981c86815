#include "serve/device_choice.h"

#include <charconv>
#include <filesystem>
#include <utility>

#include "base/log.h"

namespace saccade::serve {

Result<DeviceChoice> parse_device(std::string_view text) {
  using Kind = DeviceChoice::Kind;
  if (text == "auto") return DeviceChoice{Kind::kAuto, 0};
  if (text == "cpu") return DeviceChoice{Kind::kCpu, 0};
  if (text == "cuda") return DeviceChoice{Kind::kCuda, 0};
  constexpr std::string_view kNumbered = "cuda:";
  if (text.starts_with(kNumbered)) {
    constexpr int kMostDevices = 1024;
    const std::string_view digits = text.substr(kNumbered.size());
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc{} && end == digits.data() + digits.size() && index >= 0 &&
        index < kMostDevices)
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

}  // namespace saccade::serve
